"""Where a kernel's rows lie: which rows a block has, and which node, pair or edge a row names."""

from __future__ import annotations

from dataclasses import dataclass

from hetune.variants.backends.cpp.abi import Arguments
from hetune.variants.backends.places import node_array, own_array
from hetune.variants.kernel.blocks import is_node_blocked
from hetune.variants.kernel.nodes import Launch, Rows, Traversal
from hetune.variants.program.nodes import End, Space

CHUNK_ROWS = 256
"""Rows per block of a Traversal over pairs or edges alone."""


@dataclass(frozen=True, slots=True)
class StaticChunks:
    """How a launch is shared out among threads.

    Attributes:
        blocks: C++ expression of the number of blocks.
        order: Array of the blocks in the order in which threads take them; empty: ascending.
        urgent: C++ expression of how many at its front are begun before all others.
    """

    blocks: str
    order: str = ""
    urgent: str = "0"


def is_chunked(launch: Launch) -> bool:
    """Whether the launch's blocks are chunks of `CHUNK_ROWS` consecutive rows."""
    return not is_node_blocked(launch) and isinstance(launch.kernels[0], Traversal)


def block_range(arguments: Arguments, rows: Rows, node_blocked: bool) -> tuple[str, str]:
    """First row of the block and the row after its last, for rows that are consecutive."""
    if not node_blocked:
        count = arguments.count(rows)
        return (
            f"block * {CHUNK_ROWS}",
            f"minimum((block + 1) * {CHUNK_ROWS}, {count})",
        )
    blocks = arguments.node_blocks()
    first, last = f"{blocks}[block]", f"{blocks}[block + 1]"
    match rows.space:
        case Space.NODE:
            return first, last
        case Space.DST_PAIR:
            pointer = arguments.index(rows.group, "node_dst_pair_indptr")
        case _:
            pointer = arguments.index(rows.group, "indptr")
    return f"{pointer}[{first}]", f"{pointer}[{last}]"


def node_of(arguments: Arguments, rows: Rows, row: str, end: End) -> str:
    """The node at one end of a row (for pairs there is only one)."""
    return _entry(node_array(arguments, rows, end), row)


def own_row(arguments: Arguments, rows: Rows, row: str) -> str:
    """The row of a buffer of the rows' own space."""
    return _entry(own_array(arguments, rows), row)


def _entry(array: str, row: str) -> str:
    return f"{array}[{row}]" if array else row
