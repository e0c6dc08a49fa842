"""Where scratch buffers lie in a thread's share of scratch memory, and how much a GPU needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hetune.variants.graph.cuts import most_rows_in_block
from hetune.variants.graph.index import GraphIndex
from hetune.variants.kernel.nodes import Buffer, Launch, Rows
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
    offsets: dict[str, int] = {}
    end = 0
    for buffer in launch.buffers:
        if buffer.scratch and buffer.scratch not in offsets:
            space, group = buffer.type.space, buffer.type.group
            index = index_of("" if space is not Space.DST_PAIR else group)
            size = most_rows_in_block(index, space.value, block_nodes) * buffer.type.width
            offsets[buffer.scratch] = end
            end += -(-size // _ALIGNMENT) * _ALIGNMENT
    return ScratchLayout(offsets, end)


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
