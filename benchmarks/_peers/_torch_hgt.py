"""HGT in plain PyTorch, as an expert writes it: folded weights, pairs, CSR products.

On the source side k W_att and v W_msg are computed per (src, etype) pair; on the target side
q W_att' per (dst, etype) pair, and v is summed before W_msg. Either way a score is one sampled
dense-dense product. W_k W_att and W_v W_msg are folded into one matrix per relation where that is
less work than keys and values per node, that is where the relations have fewer weight rows than
the graph has nodes.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from _peers._pairs import HeadIndex, Side, pair_plan
from _peers._torch_ops import (
    WORKSPACE,
    HGTWeights,
    Multiply,
    bag,
    csr_tensor,
    gather,
    linear_by_type,
    segment_addmm,
    segment_mm,
    softmax_terms,
)
from _peers.problem import Problem


@dataclass(frozen=True, slots=True)
class _Folded:
    """W_k W_att and W_v W_msg per relation, [R, d_in, d], and their biases, [R, d]."""

    k: Tensor
    k_bias: Tensor
    v: Tensor
    v_bias: Tensor

    @staticmethod
    def of(weights: HGTWeights, att: Tensor, msg: Tensor, source_type: Tensor) -> "_Folded":
        def fold(weight: Tensor, matrices: Tensor) -> Tensor:
            r, heads, depth, _ = matrices.shape
            rows = weight[source_type].view(r, -1, heads, depth).transpose(1, 2)
            return (rows @ matrices).transpose(1, 2).reshape(r, -1, heads * depth)

        bias = fold(weights.k_bias.unsqueeze(1), att), fold(weights.v_bias.unsqueeze(1), msg)
        return _Folded(
            fold(weights.k, att), bias[0].squeeze(1), fold(weights.v, msg), bias[1].squeeze(1)
        )


class _HGT:
    """Indexes of one form; calling it runs the layer."""

    def __init__(self, problem: Problem, side: Side, light: bool, multiply: Multiply) -> None:
        graph, heads = problem.graph, problem.heads
        self.multiply = multiply
        self.x, self.d, self.heads, self.light = problem.x, problem.width, heads, light
        self.depth = problem.width // heads
        self.n, self.weights = graph.num_nodes, HGTWeights.of(problem)
        if light:
            for bias in ("k_bias", "q_bias", "v_bias", "out_bias"):
                getattr(self.weights, bias).zero_()
        self.plan = pair_plan(graph, side)
        self.index = index = HeadIndex.of(self.plan, graph.dst, heads)
        self.source_type = graph.etype_src_ntype.long()
        bounds = graph.node_offsets
        slices = {t: slice(bounds[t], bounds[t + 1]) for t in range(graph.num_ntypes)}
        self.sources = {t: slices[t] for t in sorted(set(self.source_type.tolist()))}
        self.targets = {t: slices[t] for t in sorted(set(graph.etype_dst_ntype.tolist()))}

        # Folded weights have biases, which a plain product by relation has not.
        few = multiply is segment_mm and graph.num_etypes * problem.width < graph.num_nodes
        self.fold_source = few and self.plan.source.rows > 0
        # With several heads a folded query has d_in columns for each of them.
        self.fold_target = few and heads == 1 and self.plan.target.rows > 0
        src = problem.edge_index[0][index.edge] * heads + index.head
        self.summed = src[index.left :].clone()
        zeros = self.x.new_zeros(index.row.numel())
        left, rows = index.left, self.plan.source.rows * heads
        self.left = csr_tensor(index.left_ptr, index.row[:left], zeros[:left], rows)
        self.right = csr_tensor(index.right_ptr, self.summed, zeros[left:], self.n * heads)

    def __call__(self) -> Tensor:
        w, plan, x = self.weights, self.plan, self.x
        att = w.att * (w.prior / math.sqrt(self.depth))[:, :, None, None]
        folded = None
        if self.fold_source or self.fold_target:
            folded = _Folded.of(w, att, w.msg, self.source_type)
        q = self._by_type(w.q, w.q_bias, self.targets, "q")
        k, v = x, x
        if (plan.source.rows and not self.fold_source) or (
            plan.target.rows and not self.fold_target
        ):
            k = self._by_type(w.k, w.k_bias, self.sources, "k")
            v = self._by_type(w.v, w.v_bias, self.sources, "v")

        table = WORKSPACE.take("table", (plan.source.rows + plan.target.rows, self.d), x)
        scores = []
        if plan.source.rows:
            keys = self._source_rows(folded, k, v, att, table[: plan.source.rows])
            scores.append(_sampled(self.left, q.view(-1, self.depth), keys.view(-1, self.depth)))
        if plan.target.rows:
            scores.append(self._target_scores(folded, q, k, att))
        joined = scores[0] if len(scores) == 1 else torch.cat(scores)
        terms, total = softmax_terms(joined, self.index.group, self.n * self.heads)
        if plan.target.rows:
            self._target_rows(folded, v, terms[self.index.left :], table[plan.source.rows :])

        index = self.index
        weights = index.final_weights(terms)
        h = bag(index.final_row, index.final_ptr, table.view(-1, self.depth), weights)
        return self._output(h.div_(total.unsqueeze(1)).view(self.n, self.d))

    def _by_type(self, weight: Tensor, bias: Tensor, slices: dict[int, slice], name: str) -> Tensor:
        out = WORKSPACE.take(name, (self.n, self.d), self.x)
        return linear_by_type(self.x, slices, weight, bias, out)

    def _source_rows(
        self, folded: _Folded | None, k: Tensor, v: Tensor, att: Tensor, messages: Tensor
    ) -> Tensor:
        """Fill `messages`; return keys, both per source pair."""
        pairs = self.plan.source
        keys = WORKSPACE.take("keys", (pairs.rows, self.d), self.x)
        if folded is not None and self.fold_source:
            rows = gather(self.x, pairs.nodes, "rows")
            segment_addmm(rows, pairs, folded.k, folded.k_bias, keys)
            segment_addmm(rows, pairs, folded.v, folded.v_bias, messages)
        else:
            self.multiply(gather(k, pairs.nodes, "rows"), pairs, _blocks(att), keys)
            self.multiply(
                gather(v, pairs.nodes, "rows"), pairs, _blocks(self.weights.msg), messages
            )
        return keys

    def _target_scores(self, folded: _Folded | None, q: Tensor, k: Tensor, att: Tensor) -> Tensor:
        pairs = self.plan.target
        queries = WORKSPACE.take("keys", (pairs.rows, self.d), self.x)
        rows = gather(q, pairs.nodes, "rows")
        if folded is None or not self.fold_target:
            self.multiply(rows, pairs, _blocks(att).transpose(1, 2), queries)
            return _sampled(self.right, queries.view(-1, self.depth), k.view(-1, self.depth))
        self.multiply(rows, pairs, folded.k.transpose(1, 2), queries)
        scores = _sampled(self.right, queries, self.x)
        share = WORKSPACE.take("share", (pairs.rows, 1), self.x)
        self.multiply(rows, pairs, folded.k_bias.unsqueeze(2), share)
        return scores.add_(share.view(-1).index_select(0, self.plan.edge_row[self.index.left :]))

    def _target_rows(
        self, folded: _Folded | None, v: Tensor, terms: Tensor, messages: Tensor
    ) -> None:
        pairs, ptr = self.plan.target, self.index.right_ptr
        if folded is None or not self.fold_target:
            summed = bag(self.summed, ptr, v.view(-1, self.depth), terms).view(-1, self.d)
            self.multiply(summed, pairs, _blocks(self.weights.msg), messages)
            return
        self.multiply(bag(self.summed, ptr, self.x, terms), pairs, folded.v, messages)
        if not self.light:
            attention = torch.segment_reduce(terms, "sum", offsets=ptr, axis=0)
            parts = zip(
                pairs.etypes,
                attention.split(pairs.sizes),
                messages.split(pairs.sizes),
                strict=True,
            )
            for r, share, rows in parts:
                rows.addr_(share, folded.v_bias[r])

    def _output(self, h: Tensor) -> Tensor:
        w = self.weights
        out = torch.empty_like(self.x)
        if not self.light:
            h = torch.ops.aten.gelu_(h)  # in place: no large temporary
        alpha = w.skip.sigmoid()
        linear_by_type(h, self.targets, w.out, w.out_bias, out)
        for t, rows in self.targets.items():
            torch.lerp(self.x[rows], out[rows], alpha[t], out=out[rows])
        return out


def pairs(
    problem: Problem, *, side: Side, light: bool = False, multiply: Multiply = segment_mm
) -> Callable[[], Tensor]:
    """HGT with keys and values on the chosen side.

    Args:
        problem: The cell.
        side: "source", "target", or "smaller": which of them decided per relation.
        light: Without biases and without the GELU: DGL's model.
        multiply: The product of messages by relation; with another than the default, weights are
            not folded.
    """
    return _HGT(problem, side, light, multiply)


def _blocks(matrices: Tensor) -> Tensor:
    """[R, H, D, D] as block-diagonal [R, H D, H D]."""
    r, heads, depth, _ = matrices.shape
    if heads == 1:
        return matrices.squeeze(1)
    out = matrices.new_zeros(r, heads, depth, heads, depth)
    out.diagonal(dim1=1, dim2=3).copy_(matrices.permute(0, 2, 3, 1))
    return out.view(r, heads * depth, heads * depth)


def _sampled(pattern: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """Row . row for each entry of the pattern."""
    if left.is_cuda and left.dtype == torch.float64:
        return dots(pattern, left, right)  # the reference takes no chances
    return torch.sparse.sampled_addmm(pattern, left, right.t(), beta=0.0).values()


def dots(pattern: Tensor, left: Tensor, right: Tensor, entries: int = 1 << 22) -> Tensor:
    """The same by picking both rows of so many entries at a time."""
    columns = pattern.col_indices()
    rows = torch.arange(left.shape[0], device=left.device)
    rows = rows.repeat_interleave(pattern.crow_indices().diff(), output_size=columns.numel())
    parts = zip(rows.split(entries), columns.split(entries), strict=True)
    return torch.cat([(left[one] * right[other]).sum(1) for one, other in parts])
