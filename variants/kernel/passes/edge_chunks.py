"""Which kernels can be shared out by edges instead of rows."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, prod

from hetune.variants.kernel.gpu_schedule import GpuSchedule
from hetune.variants.kernel.nodes import (
    Def,
    ForEach,
    Gemm,
    Init,
    Kernel,
    Launch,
    Rows,
    SegmentSum,
    Store,
    Traversal,
    Update,
)
from hetune.variants.kernel.passes.softmax_forms import expanded, running_maximum
from hetune.variants.kernel.widths import widest
from hetune.variants.program.nodes import Space

MOST_SUMMED = 1024
"""Edges that a row of a product sums."""


def edge_loop(kernel: Kernel, schedule: GpuSchedule) -> ForEach | None:
    """The loop whose edges a schedule shares out, of a kernel with softmaxes in running form.

    That is the one loop over edges of a Traversal over nodes, if it does nothing but update sums.
    None if edges are not to be shared out, if there is no such loop, or if anything else stands in
    the body than definitions and sums before it, and definitions and stores after it.
    """
    if schedule.balance != "edge" or not isinstance(kernel, Traversal):
        return None
    loops = [i for i, stmt in enumerate(kernel.body) if isinstance(stmt, ForEach)]
    if kernel.rows != Rows(Space.NODE) or len(loops) != 1:
        return None
    loop = kernel.body[loops[0]]
    assert isinstance(loop, ForEach)
    before, after = kernel.body[: loops[0]], kernel.body[loops[0] + 1 :]
    fits = (
        loop.rows.space is Space.EDGE
        and all(isinstance(stmt, Def | Update) for stmt in loop.body)
        and all(isinstance(stmt, Def | Init) for stmt in before)
        and all(isinstance(stmt, Def | Store) for stmt in after)
    )
    return loop if fits else None


def most_summed(gemm: Gemm) -> int:
    """Edges that a row of a product that sums them has at most; 0 if it has all of its pair's.

    A program waits for the longest of its rows, so a pair with more comes as several rows, where
    their products add up: where rows are scattered, and nothing is added to each of them.
    """
    sums = isinstance(gemm.x, SegmentSum)
    return MOST_SUMMED if sums and gemm.scatter and gemm.bias is None else 0


def shares_edges(launch: Launch, schedule: GpuSchedule) -> bool:
    """Whether a schedule shares out edges of the launch."""
    kernels = expanded(launch, running_maximum).kernels
    return any(edge_loop(kernel, schedule) is not None for kernel in kernels)


def part_width(traversal: Traversal) -> int:
    """Float32 elements of what a chunk keeps of nodes that reach over its ends: of two at most."""
    return 2 * sum(prod(stmt.shape) for stmt in traversal.body if isinstance(stmt, Init))


def part_elements(launch: Launch, schedule: GpuSchedule, count: Callable[[Rows], int]) -> int:
    """Float32 elements that all chunks of a launch keep."""
    found = 0
    for kernel in expanded(launch, running_maximum).kernels:
        loop = edge_loop(kernel, schedule)
        if isinstance(kernel, Traversal) and loop is not None:
            chunk = schedule.edges_of_chunk(widest((kernel,), launch))
            found += ceil(count(loop.rows) / chunk) * part_width(kernel)
    return found
