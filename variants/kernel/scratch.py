"""Where scratch buffers lie in a thread's share of scratch memory, and how much a GPU needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hetune.variants.graph.cuts import most_rows_in_block
from hetune.variants.graph.index import GraphIndex
from hetune.variants.kernel.nodes import Buffer, Launch, Rows
from hetune.variants.program.by_identity import by_identity
from hetune.variants.program.nodes import Space

_ALIGNMENT = 16
"""In elements: the start of a cache line."""


@dataclass(frozen=True, slots=True)
class ScratchLayout:
    """Offsets of a launch's scratch, in float32 elements.

    Attributes:
        offsets: Start of each scratch in a thread's share.
        stride: Elements of a thread's share.
    """

    offsets: dict[str, int]
    stride: int


def scratch_layout(
    launch: Launch, block_nodes: int, index_of: Callable[[str], GraphIndex]
) -> ScratchLayout:
    """Room for the largest block of each scratch buffer, one after the other."""
    return scratch_for(launch, lambda *of: most_rows_in_block(index_of(of[1]), of[0], block_nodes))


def scratch_for(launch: Launch, most_rows: Callable[[str, str], int]) -> ScratchLayout:
    """The same for as many rows as a block may have, by space and group."""
    offsets: dict[str, int] = {}
    end = 0
    for name, space, group, width in _shares(launch):
        size = most_rows(space, group) * width
        offsets[name] = end
        end += -(-size // _ALIGNMENT) * _ALIGNMENT
    return ScratchLayout(offsets, end)


@by_identity
def _shares(launch: Launch) -> tuple[tuple[str, str, str, int], ...]:
    """Each scratch, the space of its rows, their group, and the width of a row."""
    found: dict[str, tuple[str, str, str, int]] = {}
    for buffer in launch.buffers:
        if buffer.scratch and buffer.scratch not in found:
            kind = buffer.type
            group = kind.group if kind.space is Space.DST_PAIR else ""
            found[buffer.scratch] = buffer.scratch, kind.space.value, group, kind.width
    return tuple(found.values())


def whole_scratch(launch: Launch, count: Callable[[Rows], int]) -> dict[str, int]:
    """Float32 elements of each scratch where, as on a GPU, all its rows are there at once."""
    sizes: dict[str, int] = {}
    for buffer in launch.buffers:
        if buffer.scratch:
            size = count(scratch_rows(buffer)) * buffer.type.width
            sizes[buffer.scratch] = max(sizes.get(buffer.scratch, 0), size)
    return sizes


def scratch_rows(buffer: Buffer) -> Rows:
    """What a scratch buffer has a row for: of edges always all, whatever its group."""
    kind = buffer.type
    return Rows(kind.space, "" if kind.space is Space.EDGE else kind.group)
