"""Walks over nodes that may leave some out: nothing that anybody reads would change there.

Most of what a softmax or an activation does at a node without incoming edges ends in scratch, which
the products and sums behind it read at nodes with edges alone. And a sum over no edges, added to
what is there already, adds nothing: many nodes have no edges of a group of relations.
"""

from __future__ import annotations

from collections.abc import Iterator

from hetune.variants.kernel.nodes import (
    ForEach,
    Gemm,
    Init,
    Kernel,
    Launch,
    Rows,
    Traversal,
    Write,
)
from hetune.variants.kernel.passes.aliases import memory_of
from hetune.variants.kernel.walk import reads, touched
from hetune.variants.program.nodes import End, Space

_AT_EDGES = (Space.DST_PAIR, Space.EDGE)


def leaves_out_idle(launch: Launch) -> frozenset[int]:
    """The kernels, by their place in the launch, that need no node without incoming edges.

    A walk over nodes is one of them if all that it stores at a node itself is scratch, which every
    other kernel reads at nodes with incoming edges, or is such a walk itself.
    """
    found = {
        place
        for place, kernel in enumerate(launch.kernels)
        if isinstance(kernel, Traversal) and kernel.rows.space is Space.NODE
    }
    while wrong := {place for place in found if not _is_unread(place, found, launch)}:
        found -= wrong
    return frozenset(found)


def adds_sums_over(walk: Traversal) -> Rows | None:
    """The rows below a node over which a walk sums, if adding these sums is all that it does.

    A node without such rows keeps what it has.
    """
    loops = [stmt.rows for stmt in walk.body if isinstance(stmt, ForEach)]
    if walk.rows.space is not Space.NODE or len(loops) != 1:
        return None
    sums = {s.name for s in walk.body if isinstance(s, Init) and s.reduce == "sum"}
    for stmt in walk.body:
        match stmt:
            case ForEach():
                continue
            case Init(name=name) if name in sums:
                continue
            case Write(value=value, accumulate=True) if value in sums:
                continue
        return None
    return loops[0]


def _is_unread(place: int, others: set[int], launch: Launch) -> bool:
    """Whether nobody reads what a walk stores at nodes without edges, if others leave them out."""
    kernel = launch.kernels[place]
    assert isinstance(kernel, Traversal)
    for name in _stored_at_nodes(kernel):
        names = memory_of(name, launch)
        if not names:
            return False
        for reader, other in enumerate(launch.kernels):
            if reader != place and reader not in others and not _spares_idle(other, names):
                return False
    return True


def _stored_at_nodes(walk: Traversal) -> Iterator[str]:
    for statement in walk.body:
        match statement:
            case Write(buffer=buffer):
                yield buffer


def _spares_idle(kernel: Kernel, names: set[str]) -> bool:
    """Whether a kernel touches rows of nodes by these names at nodes with incoming edges alone."""
    if kernel.rows.space in _AT_EDGES:
        return all(end is not End.SRC for name, end in reads(kernel) if name in names)
    if isinstance(kernel, Gemm) and kernel.only is End.DST:
        # A tail runs for the rows that are filled, too.
        return not names & set(touched(Traversal(kernel.rows, kernel.tail)))
    read = {name for name, _ in reads(kernel)}
    adds = isinstance(kernel, Gemm) and kernel.accumulate and kernel.out in names
    return not adds and not read & names
