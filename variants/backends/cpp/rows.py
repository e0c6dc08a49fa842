"""Where a kernel's rows lie: which rows a block has, and which node, pair or edge a row names."""

from __future__ import annotations

from hetune.variants.backends.cpp.abi import Arguments
from hetune.variants.errors import KernelError
from hetune.variants.kernel.nodes import Gemm, Launch, Rows, Traversal
from hetune.variants.program.nodes import End, Space

CHUNK_ROWS = 1024
"""Rows per block of a Traversal over pairs or edges alone."""


def is_node_blocked(launch: Launch) -> bool:
    """Whether the launch's blocks are ranges of destination nodes.

    Raises:
        KernelError: several kernels, one of which cannot be blocked by destination.
    """
    blockable = (Space.NODE, Space.DST_PAIR, Space.EDGE)
    if len(launch.kernels) > 1:
        for kernel in launch.kernels:
            if kernel.rows.space not in blockable:
                raise KernelError(
                    f"a kernel over {kernel.rows.space} rows shares a launch: give it its own, "
                    "only nodes, dst_pairs and edges can be blocked by destination"
                )
        return True
    (kernel,) = launch.kernels
    return kernel.rows.space is Space.NODE or (isinstance(kernel, Gemm) and kernel.scatter)


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
    space, group = rows.space, rows.group
    match space, end:
        case Space.NODE, _:
            return row
        case Space.EDGE, (End.SRC | End.DST):
            return f"{arguments.index(group, end.value)}[{row}]"
        case ((Space.SRC_PAIR | Space.SRC_DENSE), (End.SRC | End.NONE)):
            return f"{arguments.index(group, f'{space}_node')}[{row}]"
        case Space.DST_PAIR, (End.DST | End.NONE):
            return f"{arguments.index(group, 'dst_pair_node')}[{row}]"
    raise KernelError(f"rows of {space} have no node at the end {end.value!r}")


def etype_of(arguments: Arguments, rows: Rows, row: str) -> str:
    """The edge type of an edge or pair."""
    name = "etype" if rows.space is Space.EDGE else f"{rows.space}_etype"
    return f"{arguments.index(rows.group, name)}[{row}]"


def own_row(arguments: Arguments, rows: Rows, row: str) -> str:
    """Where a buffer of the rows' own space keeps a row: edge buffers hold all edges."""
    if rows.space is Space.EDGE and rows.group:
        return f"{arguments.index(rows.group, 'position')}[{row}]"
    return row
