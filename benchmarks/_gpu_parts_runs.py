"""Binds the candidates of `gpu_parts.py` to a graph: tables, partial rows, and what starts them."""

import importlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from _gpu_parts_candidates import Candidate, Kernel
from _gpu_parts_compile import place_of
from _gpu_parts_index import Parts, programs
from torch import Tensor

from hetune.variants.backends.triton.driver import Start, cuda_driver

Run = Callable[[], Any]
Argument = Tensor | int


class Kernels:
    """Starts kernels: from their zip files on a GPU, through Triton's interpreter on the CPU.

    Args:
        device: Where.
        folder: Where the files are.
    """

    def __init__(self, device: str, folder: Path) -> None:
        self._interpreted, self._folder = device == "cpu", folder
        self._starts: dict[Kernel, Start] = {}

    def has(self, kernel: Kernel) -> bool:
        """Whether it can be started."""
        if self._interpreted:
            return kernel.module != "cuda"
        return place_of(kernel, self._folder).is_file()

    def call(self, kernel: Kernel, grid: int, arguments: Sequence[Argument]) -> Run:
        """A call of a kernel, on the stream that is the current one now."""
        if not grid:
            return lambda: None
        if self._interpreted:
            function = getattr(importlib.import_module(kernel.module), kernel.name)
            return lambda: function[(grid,)](*arguments, **dict(kernel.constants))
        start, stream = self.start(kernel), torch.cuda.current_stream().cuda_stream
        given = [a.data_ptr() if isinstance(a, Tensor) else a for a in arguments]
        if any(
            address % 16 for a, address in zip(arguments, given, strict=True) if a is not address
        ):
            raise AssertionError(f"{kernel.label}: rows do not begin at multiples of 16 bytes")
        # What the addresses are of is kept for the call.
        return lambda kept=arguments: start((grid, 1, 1), given, stream)

    def start(self, kernel: Kernel) -> Start:
        """What starts a kernel on the GPU."""
        if kernel not in self._starts:
            self._starts[kernel] = cuda_driver().load(self.binary(kernel))[kernel.name]
        return self._starts[kernel]

    def binary(self, kernel: Kernel) -> bytes:
        """Its zip file."""
        return place_of(kernel, self._folder).read_bytes()


def in_order(calls: Sequence[Run]) -> Run:
    """All calls, one after the other."""

    def run() -> None:
        for call in calls:
            call()

    return run


def bind_sum(
    candidate: Candidate, kernels: Kernels, levels: Sequence[Parts], src: Tensor, x: Tensor,
    out: Tensor,
) -> Run:  # fmt: skip
    """Sums x[src] over each node's edges.

    Args:
        candidate: How.
        kernels: What starts its kernels.
        levels: Parts of edges, and of partial rows.
        src: Sources by destination, int32 [E].
        x: float32 [N, W].
        out: Filled, float32 [N, W].
    """
    calls, rows = [], x
    for i, parts in enumerate(levels):
        kernel, table = _taken(candidate, i, parts)
        carry = x.new_empty(max(parts.carries, 1), x.shape[1])
        columns = parts.begin, parts.length, parts.row, parts.slot, table.first, table.most
        arguments = rows, src, *columns, out, carry, table.count
        calls.append(kernels.call(kernel, _grid(candidate, i, table.count), arguments))
        rows = carry
    return in_order(calls)


def bind_softmax(
    candidate: Candidate, kernels: Kernels, levels: Sequence[Parts], src: Tensor,
    qkv: tuple[Tensor, Tensor, Tensor], out: Tensor,
) -> Run:  # fmt: skip
    """Sums v[src] over each node's edges, weighted by a softmax of q[dst] . k[src].

    Args:
        candidate: How.
        kernels: What starts its kernels.
        levels: Parts of edges, and of partial rows.
        src: Sources by destination, int32 [E].
        qkv: float32 [N, 64] each.
        out: Filled, float32 [N, 64].
    """
    q, k, rows = qkv
    top = mass = q  # of no part yet
    calls = []
    for i, parts in enumerate(levels):
        kernel, table = _taken(candidate, i, parts)
        count = max(parts.carries, 1)
        carry, tops, masses = q.new_empty(count, q.shape[1]), q.new_empty(count), q.new_empty(count)
        columns = parts.begin, parts.length, parts.row, parts.slot, table.first, table.most
        given = q, k, rows, top, mass, src, *columns
        arguments = *given, out, carry, tops, masses, table.count
        calls.append(kernels.call(kernel, _grid(candidate, i, table.count), arguments))
        rows, top, mass = carry, tops, masses
    return in_order(calls)


def _taken(candidate: Candidate, level: int, parts: Parts) -> tuple[Kernel, Any]:
    """The kernel of a level, and its programs."""
    if level == 0:
        return candidate.kernel, programs(parts, candidate.each, candidate.elements)
    if candidate.join.module == "cuda":
        groups = 512 // int(candidate.join.name.rpartition("_")[2])
        short = 8 * groups if candidate.join.name.startswith("sum") else 0
        return candidate.join, programs(parts, groups, short)
    return candidate.join, programs(parts, dict(candidate.join.constants)["P"])


def _grid(candidate: Candidate, level: int, count: int) -> int:
    if level or not candidate.blocks:
        return count
    here = torch.cuda.get_device_properties(0).multi_processor_count
    return min(count, here * candidate.blocks)
