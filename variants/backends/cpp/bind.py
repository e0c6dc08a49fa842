"""Fills a compiled launch's arguments from tensors and indexes, and calls it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

from hetune.variants.backends.cpp.abi import (
    BufferSlot,
    CountSlot,
    GroupsSlot,
    IndexSlot,
    NodeBlocksSlot,
    NodeTypeSlot,
    Slot,
)
from hetune.variants.backends.cpp.emit import Emitted
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.index import GraphIndex
from hetune.variants.graph.row_groups import RowGroups, node_type_groups
from hetune.variants.kernel.interpret import row_count
from hetune.variants.kernel.nodes import Schedule
from hetune.variants.program.nodes import Space

IndexOf = Callable[[str], GraphIndex]


@dataclass(frozen=True, slots=True)
class Call:
    """A compiled launch with its arguments; it keeps the tensors behind the pointers alive."""

    function: Callable[..., None]
    pointers: ctypes.Array[ctypes.c_void_p]
    counts: ctypes.Array[ctypes.c_int64]
    alive: tuple[torch.Tensor, ...]

    def __call__(self, threads: int) -> None:
        """Run it."""
        self.function(self.pointers, self.counts, threads)


def bind(
    emitted: Emitted,
    library: ctypes.CDLL,
    schedule: Schedule,
    values: Mapping[str, torch.Tensor],
    index_of: IndexOf,
    graph: HeteroGraph,
) -> Call:
    """Bind a loaded launch to its buffers (contiguous float32, on the CPU) and one graph."""
    arrays = Arrays(schedule, index_of, graph)
    tensors = tuple(
        values[slot.name] if isinstance(slot, BufferSlot) else arrays.of(slot)
        for slot in emitted.pointers
    )
    pointers = (ctypes.c_void_p * len(tensors))(*(tensor.data_ptr() for tensor in tensors))
    groups = [slot for slot in emitted.pointers if isinstance(slot, GroupsSlot)]
    numbers = [arrays.count(slot, groups) for slot in emitted.counts]
    counts = (ctypes.c_int64 * len(numbers))(*numbers)
    function = library.hetune_launch
    function.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)
    function.restype = None
    return Call(function, pointers, counts, tensors)


class Arrays:
    """What slots of a graph's index stand for, under one schedule."""

    def __init__(self, schedule: Schedule, index_of: IndexOf, graph: HeteroGraph) -> None:
        self._block_nodes = schedule.block_nodes
        self._index_of = index_of
        self._graph = graph

    def of(self, slot: Slot) -> torch.Tensor:
        """The int32 array of a slot."""
        match slot:
            case IndexSlot(group, name):
                array = getattr(self._index_of(group), name)
                assert isinstance(array, torch.Tensor)
                return array
            case GroupsSlot(field=field):
                array = getattr(self._row_groups(slot), field)
                assert isinstance(array, torch.Tensor)
                return array
            case NodeTypeSlot():
                return self._graph.ntype
            case NodeBlocksSlot():
                return self._blocks
            case BufferSlot(name):
                raise AssertionError(f"{name} is no array of the index")

    def count(self, slot: CountSlot, groups: list[GroupsSlot]) -> int:
        """A count; `groups` are the launch's slots of row groups."""
        match slot.of:
            case "blocks":
                return self._blocks.numel() - 1
            case "row_blocks":
                return self._row_groups(groups[0]).num_blocks
            case str(name):
                raise AssertionError(f"there is no count of {name}")
            case rows:
                return row_count(rows, self._index_of, self._graph)

    @property
    def _blocks(self) -> torch.Tensor:
        return self._index_of("").node_blocks(self._block_nodes)

    def _row_groups(self, slot: GroupsSlot) -> RowGroups:
        if slot.space is Space.NODE:
            return node_type_groups(self._graph, self._block_nodes, self._blocks)
        blocks = self._block_nodes if slot.blocked else None
        return self._index_of(slot.group).row_groups(slot.space.value, blocks)
