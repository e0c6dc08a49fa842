"""A launch on one small graph after another: what it is called with stays in its place."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass

from hetune.variants.backends.cpp.abi import ChunksSlot, CountSlot
from hetune.variants.backends.cpp.backend import Loaded
from hetune.variants.backends.slots import NodeTypeSlot
from hetune.variants.graph.small_index import FIELDS, HUBS, start_of
from hetune.variants.kernel.nodes import Rows
from hetune.variants.kernel.scratch import ScratchLayout
from hetune.variants.program.nodes import ALL_EDGES, Space

_ROWS = {
    Space.EDGE: "edge_id",
    Space.NODE: "in_degree",
    Space.SOURCE: "in_degree",
    Space.SRC_PAIR: "src_pair_node",
    Space.DST_PAIR: "dst_pair_node",
}
"""What is as long as spaces have rows, on graphs whose sources are their targets."""


@dataclass(frozen=True, slots=True)
class ReusedLaunch:
    """Code, and what it is called with.

    Attributes:
        code: The code, which is kept.
        pointers: Those of its arguments, in order.
        counts: Likewise.
        arrays: Addresses of pointers to arrays of a `SmallIndex`, and the places of these.
        found: Addresses of counts, and where these are among the numbers that indexing finds.
        node_types: Which pointers are those to the type of each node.
        chunks: Which rows it cuts into chunks, how many, and which pointers are those to the fields
            of these; None where it sums into no type.
        chunk_blocks: Addresses of the number of their blocks.
    """

    code: Loaded
    pointers: ctypes.Array[ctypes.c_void_p]
    counts: ctypes.Array[ctypes.c_int64]
    arrays: tuple[tuple[int, int], ...]
    found: tuple[tuple[int, int], ...]
    node_types: tuple[int, ...]
    chunks: tuple[tuple[Space, int], tuple[tuple[int, str], ...]] | None
    chunk_blocks: tuple[int, ...]

    @classmethod
    def of(
        cls, code: Loaded, scratch: ScratchLayout, sizes: Mapping[Space, int]
    ) -> ReusedLaunch | None:
        """That of a launch; None where it reads more than a `SmallIndex` has.

        Args:
            code: Of the launch.
            scratch: Where its scratch lies, on all graphs.
            sizes: Rows of spaces that are as large on all graphs.
        """
        node_types, chunked = list[int](), list[tuple[int, ChunksSlot]]()
        for position, other in code.others:
            match other:
                case NodeTypeSlot():
                    node_types.append(position)
                case ChunksSlot(rows=rows, by_type=False) if _is_counted(rows):
                    chunked.append((position, other))
                case _:
                    return None
        pointers = (ctypes.c_void_p * max(len(code.code.pointers), 1))()
        counts = (ctypes.c_int64 * max(len(code.code.counts), 1))()
        found, blocks = [], []
        for position, slot in enumerate(code.code.counts):
            address = ctypes.addressof(counts) + 8 * position
            if slot.of == "chunk_blocks":
                blocks.append(address)
            elif (place := _found(slot)) is not None:
                found.append((address, place))
            elif (number := _number(slot, scratch, sizes)) is not None:
                counts[position] = number
            else:
                return None
        start = ctypes.addressof(pointers)
        arrays = tuple((start + 8 * position, place) for position, place in code.small)
        chunks = [((slot.rows.space, slot.chunks), (at, slot.field)) for at, slot in chunked]
        cut = (chunks[0][0], tuple(field for _, field in chunks)) if chunks else None
        told = tuple(found), tuple(node_types), cut, tuple(blocks)
        return cls(code, pointers, counts, arrays, *told)

    def __call__(self, threads: int) -> bool:
        """Runs it, and says whether a number outgrew a float."""
        return bool(self.code.function(self.pointers, self.counts, threads))


def _is_counted(rows: Rows) -> bool:
    return rows.group == ALL_EDGES and rows.space in _ROWS


def place_of_count(space: Space) -> int:
    """Where it is found how many rows a space has."""
    return start_of(FIELDS[_ROWS[space]]) + 1


def _found(slot: CountSlot) -> int | None:
    match slot.of:
        case Rows(space) as rows if _is_counted(rows):
            return place_of_count(space)
        case "blocks":
            return start_of(FIELDS["block_order"]) + 1
        case "hubs":
            return HUBS
    return None


def _number(slot: CountSlot, scratch: ScratchLayout, sizes: Mapping[Space, int]) -> int | None:
    match slot.of:
        case Rows(space, group) if group == ALL_EDGES:
            return sizes.get(space)
        case "scratch_stride":
            return scratch.stride
        case "scratch_start":
            return scratch.offsets[slot.scratch]
    return None
