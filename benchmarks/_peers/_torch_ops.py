"""What the expert forms are made of: the fastest way that stock PyTorch has for each step.

On the CPU, large temporaries cost more in page faults than in arithmetic, so intermediates live in
buffers that are kept; and `embedding_bag` with weights per sample is a sparse-dense product many
times faster than the CSR one.
"""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from _peers._pairs import Segments
from _peers.problem import Problem


class Workspace:
    """Buffers by name that grow and are never returned.

    One serves all expert forms of a process: they run one after the other.
    """

    def __init__(self) -> None:
        self._buffers: dict[tuple[str, torch.dtype, torch.device], Tensor] = {}

    def take(self, name: str, shape: tuple[int, ...], like: Tensor) -> Tensor:
        """Uninitialized tensor of `shape`, of the dtype and on the device of `like`.

        The last one of that name is overwritten.
        """
        size, key = math.prod(shape), (name, like.dtype, like.device)
        held = self._buffers.get(key)
        if held is None or held.numel() < size:
            self._buffers.pop(key, None)
            held = self._buffers[key] = like.new_empty(size)
        return held[:size].view(shape)

    def clear(self) -> None:
        """Let go of all buffers."""
        self._buffers.clear()


WORKSPACE = Workspace()


def bag(rows: Tensor, ptr: Tensor, table: Tensor, weights: Tensor | None = None) -> Tensor:
    """CSR sparse @ dense: out[i] = sum of weights * table[rows] over ptr[i] : ptr[i+1]."""
    return embedding_bag(
        rows, table, ptr, mode="sum", per_sample_weights=weights, include_last_offset=True
    )


def bag_mean(rows: Tensor, ptr: Tensor, table: Tensor) -> Tensor:
    """CSR mean; zero for empty rows."""
    return embedding_bag(rows, table, ptr, mode="mean", include_last_offset=True)


def csr_tensor(ptr: Tensor, column: Tensor, values: Tensor, width: int) -> Tensor:
    """CSR tensor [len(ptr) - 1, width] over the arrays given."""
    with warnings.catch_warnings():  # "beta state", said once in a process
        warnings.simplefilter("ignore", UserWarning)
        size = (ptr.numel() - 1, width)
        return torch.sparse_csr_tensor(ptr, column, values, size, check_invariants=False)


def gather(table: Tensor, rows: Tensor, name: str) -> Tensor:
    """table[rows] in a kept buffer."""
    out = WORKSPACE.take(name, (rows.numel(), *table.shape[1:]), table)
    return torch.index_select(table, 0, rows, out=out)


Multiply = Callable[[Tensor, Segments, Tensor, Tensor], None]
"""From rows by relation and a weight for each: out[rows of r] = x[rows of r] @ weight[r]."""


def segment_mm(x: Tensor, segments: Segments, weight: Tensor, out: Tensor) -> None:
    """out[rows of r] = x[rows of r] @ weight[r]."""
    weights = weight.unbind(0)
    parts = zip(segments.etypes, x.split(segments.sizes), out.split(segments.sizes), strict=True)
    for r, rows, target in parts:
        torch.mm(rows, weights[r], out=target)


def grouped_mm(dtype: torch.dtype | None = None) -> Multiply:
    """The same with one call of `torch._grouped_mm`, operands rounded to `dtype`."""

    def multiply(x: Tensor, segments: Segments, weight: Tensor, out: Tensor) -> None:
        kind = dtype or x.dtype
        rows, weights = x.contiguous().to(kind), weight.to(kind)
        out.copy_(torch._grouped_mm(rows, weights, offs=segments.ends))

    return multiply


def segment_addmm(x: Tensor, segments: Segments, weight: Tensor, bias: Tensor, out: Tensor) -> None:
    """out[rows of r] = x[rows of r] @ weight[r] + bias[r]."""
    weights, biases = weight.unbind(0), bias.unbind(0)
    parts = zip(segments.etypes, x.split(segments.sizes), out.split(segments.sizes), strict=True)
    for r, rows, target in parts:
        torch.addmm(biases[r], rows, weights[r], out=target)


def linear_by_type(
    x: Tensor, slices: dict[int, slice], weight: Tensor, bias: Tensor, out: Tensor
) -> Tensor:
    """A linear map for each node type in `slices`, whose nodes are contiguous."""
    for t, rows in slices.items():
        torch.addmm(bias[t], x[rows], weight[t], out=out[rows])
    return out


def softmax_terms(scores: Tensor, group: Tensor, num_groups: int) -> tuple[Tensor, Tensor]:
    """exp(score - its group's maximum), [E], in place, and their sum per group.

    Dividing is left to the caller: it is cheaper after the sum.
    """
    top = scores.new_full((num_groups,), -math.inf).scatter_reduce_(0, group, scores, "amax")
    terms = scores.sub_(top.index_select(0, group)).exp_()
    total = scores.new_zeros(num_groups).scatter_add_(0, group, terms)
    return terms, total.add_(1e-16)


@dataclass(frozen=True, slots=True)
class HGTWeights:
    """PyG's HGT parameters as stacked tensors; matrices multiply from the right.

    Attributes:
        k, q, v: [T, d_in, d]; k_bias, q_bias, v_bias: [T, d].
        out: [T, d, d]; out_bias: [T, d].
        att, msg: [R, H, D, D].
        prior: [R, H].
        skip: [T].
    """

    k: Tensor
    q: Tensor
    v: Tensor
    k_bias: Tensor
    q_bias: Tensor
    v_bias: Tensor
    out: Tensor
    out_bias: Tensor
    att: Tensor
    msg: Tensor
    prior: Tensor
    skip: Tensor

    @staticmethod
    def of(problem: Problem) -> "HGTWeights":
        """Copies of the parameters of `problem.conv`."""
        conv: Any = problem.conv
        ntypes, etypes = problem.graph.metadata()
        kqv = torch.stack([conv.kqv_lin.lins[t].weight.t() for t in ntypes])
        kqv_bias = torch.stack([conv.kqv_lin.lins[t].bias for t in ntypes])
        k, q, v = (part.contiguous() for part in kqv.chunk(3, dim=2))
        k_bias, q_bias, v_bias = (part.contiguous() for part in kqv_bias.chunk(3, dim=1))
        depth = problem.width // problem.heads

        def by_relation(weight: Tensor) -> Tensor:
            stacked = weight.view(problem.heads, len(etypes), depth, depth)
            return stacked.transpose(0, 1).contiguous()

        return HGTWeights(
            k,
            q,
            v,
            k_bias,
            q_bias,
            v_bias,
            torch.stack([conv.out_lin.lins[t].weight.t() for t in ntypes]).contiguous(),
            torch.stack([conv.out_lin.lins[t].bias for t in ntypes]),
            by_relation(conv.k_rel.weight),
            by_relation(conv.v_rel.weight),
            torch.cat([conv.p_rel["__".join(t)] for t in etypes]),
            torch.cat([conv.skip[t] for t in ntypes]),
        )
