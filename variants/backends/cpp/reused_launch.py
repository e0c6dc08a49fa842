"""A launch on one small graph after another: what it is called with stays in its place."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass

from hetune.variants.backends.cpp.abi import CountSlot
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
    """

    code: Loaded
    pointers: ctypes.Array[ctypes.c_void_p]
    counts: ctypes.Array[ctypes.c_int64]
    arrays: tuple[tuple[int, int], ...]
    found: tuple[tuple[int, int], ...]
    node_types: tuple[int, ...]

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
        if not all(isinstance(slot, NodeTypeSlot) for _, slot in code.others):
            return None
        pointers = (ctypes.c_void_p * max(len(code.code.pointers), 1))()
        counts = (ctypes.c_int64 * max(len(code.code.counts), 1))()
        found = []
        for position, slot in enumerate(code.code.counts):
            if (place := _found(slot)) is not None:
                found.append((ctypes.addressof(counts) + 8 * position, place))
            elif (number := _number(slot, scratch, sizes)) is not None:
                counts[position] = number
            else:
                return None
        start = ctypes.addressof(pointers)
        arrays = tuple((start + 8 * position, place) for position, place in code.small)
        node_types = tuple(position for position, _ in code.others)
        return cls(code, pointers, counts, arrays, tuple(found), node_types)

    def __call__(self, threads: int) -> bool:
        """Runs it, and says whether a number outgrew a float."""
        return bool(self.code.function(self.pointers, self.counts, threads))


def _found(slot: CountSlot) -> int | None:
    match slot.of:
        case Rows(space, group) if group == ALL_EDGES and space in _ROWS:
            return _length_of(_ROWS[space])
        case "blocks":
            return _length_of("block_order")
        case "hubs":
            return HUBS
    return None


def _length_of(name: str) -> int:
    return start_of(FIELDS[name]) + 1


def _number(slot: CountSlot, scratch: ScratchLayout, sizes: Mapping[Space, int]) -> int | None:
    match slot.of:
        case Rows(space, group) if group == ALL_EDGES:
            return sizes.get(space)
        case "scratch_stride":
            return scratch.stride
        case "scratch_start":
            return scratch.offsets[slot.scratch]
    return None
