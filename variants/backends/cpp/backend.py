"""Launches compiled by the C++ compiler and called through ctypes."""

from __future__ import annotations

import ctypes
import functools
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from hetune.variants.backends.base import SCRATCH, TERMS, Place, Runner, only_on_cpu
from hetune.variants.backends.cpp.abi import (
    BlockOrderSlot,
    ChunksSlot,
    CountSlot,
    GroupsSlot,
    NodeBlocksSlot,
    ScratchSlot,
    Slot,
    TermsSlot,
)
from hetune.variants.backends.cpp.emit import Emitted, emit
from hetune.variants.backends.cpp.fit import fitted
from hetune.variants.backends.cpp.runner import CppRunner
from hetune.variants.backends.slots import BufferSlot, IndexSlot, NodeTypeSlot
from hetune.variants.errors import CompileError
from hetune.variants.graph import cuts
from hetune.variants.graph.row_groups import RowGroups, node_type_groups
from hetune.variants.graph.small_index import FIELDS, SmallIndex
from hetune.variants.graph.state import GraphSlot
from hetune.variants.graph.type_chunks import TypeChunks, edgewise_chunks, node_chunks
from hetune.variants.kernel.device import Device
from hetune.variants.kernel.gpu_schedule import AnySchedule
from hetune.variants.kernel.nodes import Launch, Rows, Schedule
from hetune.variants.kernel.scratch import ScratchLayout, scratch_layout
from hetune.variants.program.nodes import End, Space
from hetune.variants.registry import KernelSource, Registry, Toolchain, default_registry
from hetune.variants.registry.vectors import WIDEST, Vectors

_emit = functools.lru_cache(maxsize=4096)(emit)
_MOST_LOADED = 512

_NODE_TYPE_GROUPS = GraphSlot[tuple[int, End], RowGroups]()


def emitted(launch: Launch, schedule: Schedule) -> Emitted:
    """What `emit` prints, remembered. Blocks are given at run time: no code depends on them."""
    return _emit(launch, replace(schedule, block_nodes=Schedule().block_nodes))


class CppBackend:
    """C++ for this machine's CPU.

    Args:
        registry: Where compiled launches are kept; the process's default registry if None.
        vectors: The registers that code is made for; those of the registry's compiler if None.
        schedule: How all launches run, in place of what their variants say.
    """

    name = "cpp"
    indexes_on_device = False
    keeps_indexes = True
    target: Device = "cpu"

    def __init__(
        self,
        registry: Registry | None = None,
        vectors: Vectors | None = None,
        schedule: Schedule | None = None,
    ) -> None:
        self._registry, self._vectors, self.schedule = registry, vectors, schedule
        self._loaded: dict[tuple[int, int, int], Loaded] = {}

    @property
    def registry(self) -> Registry:
        """Where compiled launches are kept."""
        return self._registry or default_registry()

    @property
    def vectors(self) -> Vectors:
        """The registers that code is made for. Raises CompileError where no compiler tells."""
        if self._vectors is not None:
            return self._vectors
        compiler = self.registry.toolchain
        return compiler.vectors if isinstance(compiler, Toolchain) else WIDEST

    def source(self, launch: Launch, schedule: AnySchedule) -> KernelSource:
        """The translation unit of a launch.

        Raises:
            CompileError: The schedule is a GPU's, or there is no compiler.
        """
        return self._emitted(launch, _for_cpu(schedule)).source

    def is_ready(self, launch: Launch, schedule: AnySchedule) -> bool:
        """Whether the launch was compiled before."""
        return self.registry.holds(self.source(launch, schedule))

    def refusal(self, device: torch.device) -> str:
        """Why it does not run on tensors of a device."""
        return only_on_cpu(device)

    def bind(self, launch: Launch, schedule: AnySchedule, place: Place) -> Runner:
        """Loads (or compiles) the launch and looks up the graph's arrays that it needs.

        Raises:
            CompileError: The launch cannot be compiled, or the schedule is a GPU's.
        """
        return _bound(self.loaded(launch, schedule), place)

    def loaded(self, launch: Launch, schedule: AnySchedule) -> Loaded:
        """The launch's code, compiled if it was not.

        Raises:
            CompileError: It cannot be compiled, or the schedule is a GPU's.
        """
        schedule, registry = _for_cpu(schedule), self.registry
        key = id(launch), id(schedule), id(registry)  # to hash what they are takes longer
        loaded = self._loaded.get(key)
        if loaded is None:
            code = self._emitted(launch, schedule)
            function = registry.load(code.source).hetune_launch
            function.restype = ctypes.c_int
            function.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)
            buffers, arrays = _parted(launch, code)
            made = launch, schedule, registry, code, function, buffers, arrays
            loaded = Loaded(*made, *_in_small(arrays))
            if len(self._loaded) >= _MOST_LOADED:
                self._loaded.clear()
            self._loaded[key] = loaded
        return loaded

    def _emitted(self, launch: Launch, schedule: Schedule) -> Emitted:
        return emitted(launch, fitted(schedule, self.vectors))


class Loaded(NamedTuple):
    """Code of a launch, with all whose ids it is kept by.

    `buffers` are places of pointers that each run gives, and `arrays` those of the graph's: on a
    small graph `small` is where a `SmallIndex` has them, and `others` are what it has not.
    """

    launch: Launch
    schedule: Schedule
    registry: Registry
    code: Emitted
    function: ctypes._NamedFuncPointer
    buffers: tuple[tuple[int, str], ...]
    arrays: tuple[tuple[int, Slot], ...]
    small: tuple[tuple[int, int], ...]
    others: tuple[tuple[int, Slot], ...]


def _parted(
    launch: Launch, code: Emitted
) -> tuple[tuple[tuple[int, str], ...], tuple[tuple[int, Slot], ...]]:
    temporary = {buffer.name for buffer in launch.buffers if buffer.scratch}
    buffers: list[tuple[int, str]] = []
    arrays: list[tuple[int, Slot]] = []
    for position, slot in enumerate(code.pointers):
        match slot:
            case ScratchSlot():
                buffers.append((position, SCRATCH))
            case TermsSlot():
                buffers.append((position, TERMS))
            case BufferSlot(name):
                if name not in temporary:
                    buffers.append((position, name))
            case _:
                arrays.append((position, slot))
    return tuple(buffers), tuple(arrays)


def _for_cpu(schedule: AnySchedule) -> Schedule:
    if isinstance(schedule, Schedule):
        return schedule
    raise CompileError("the variant is for a GPU: take one of variants_of(program, 'cpu')")


def _in_small(
    arrays: tuple[tuple[int, Slot], ...],
) -> tuple[tuple[tuple[int, int], ...], tuple[tuple[int, Slot], ...]]:
    """Where a `SmallIndex` has arrays, and which it has not."""
    small, others = [], []
    for position, slot in arrays:
        place = _place_in_small(slot)
        if place is None:
            others.append((position, slot))
        else:
            small.append((position, place))
    return tuple(small), tuple(others)


def _place_in_small(slot: Slot) -> int | None:
    match slot:
        case IndexSlot(group="", name=name):
            return FIELDS.get(name)
        case GroupsSlot(group="", space=space, blocked=True, field=field, only=end):
            return FIELDS.get((space, end, field))
        case NodeBlocksSlot():
            return FIELDS["node_blocks"]
        case BlockOrderSlot():
            return FIELDS["block_order"]
    return None


def _small_index(loaded: Loaded, place: Place) -> SmallIndex | None:
    """What has all of `Loaded.small`; None where nothing has."""
    index = place.index("")
    small = index.small()
    if small is None or not small.has(place for _, place in loaded.small):
        return None
    is_cut_alike = small.num_blocks == cuts.block_count(index, loaded.schedule.block_nodes)
    return small if is_cut_alike else None


def _bound(loaded: Loaded, place: Place) -> CppRunner:
    code, schedule = loaded.code, loaded.schedule
    scratch = scratch_layout(loaded.launch, schedule.block_nodes, place.index)
    pointers = (ctypes.c_void_p * max(len(code.pointers), 1))()
    small, arrays = _small_index(loaded, place), loaded.arrays
    if small is not None:
        arrays = loaded.others
        for position, at in loaded.small:
            pointers[position] = small.addresses[at]
    kept = [_array(slot, schedule, place) for _, slot in arrays]
    for (position, _), array in zip(arrays, kept, strict=True):
        pointers[position] = array.data_ptr()
    counts = (ctypes.c_int64 * max(len(code.counts), 1))(
        *(_count(slot, code, schedule, place, scratch) for slot in code.counts)
    )
    return CppRunner(loaded.function, loaded.buffers, pointers, counts, (kept, small))


def _array(slot: Slot, schedule: Schedule, place: Place) -> Tensor:
    match slot:
        case IndexSlot(group=group, name=name):
            array = getattr(place.index(group), name)
            assert isinstance(array, Tensor)
            return array
        case GroupsSlot(field=field):
            array = getattr(_groups(slot, schedule, place), field)
            assert isinstance(array, Tensor)
            return array
        case ChunksSlot(field=field):
            chunks = _chunks_of(slot, place)
            array = getattr(chunks if field in TypeChunks._fields else chunks.groups, field)
            assert isinstance(array, Tensor)
            return array
        case NodeTypeSlot():
            return place.graph.ntype.contiguous()
        case NodeBlocksSlot():
            return cuts.node_blocks(place.index(""), schedule.block_nodes)
        case BlockOrderSlot():
            return cuts.block_order(place.index(""), schedule.block_nodes)
        case BufferSlot() | ScratchSlot() | TermsSlot():
            raise AssertionError("buffers are given with every run")


def _groups(slot: GroupsSlot, schedule: Schedule, place: Place) -> RowGroups:
    if slot.space is Space.NODE:
        size, index = schedule.block_nodes, place.index("")

        def group() -> RowGroups:
            chosen = None if slot.only is End.NONE else index.nodes_with_edges(slot.only)
            return node_type_groups(place.graph, size, cuts.node_blocks(index, size), chosen)

        key = cuts.block_count(index, size), slot.only
        return place.graph.state.of(_NODE_TYPE_GROUPS, key, group)
    block_nodes = schedule.block_nodes if slot.blocked else None
    return cuts.row_groups(place.index(slot.group), slot.space.value, block_nodes)


def _chunks(code: Emitted, place: Place) -> TypeChunks:
    """Those of the launch, which sums into types."""
    return _chunks_of(next(s for s in code.pointers if isinstance(s, ChunksSlot)), place)


def _chunks_of(slot: ChunksSlot, place: Place) -> TypeChunks:
    rows = slot.rows
    if rows.space is Space.NODE:
        return node_chunks(place.graph, slot.by_type, slot.chunks)
    index = place.index(rows.group)
    return edgewise_chunks(index, rows.space.value, slot.by_type, slot.chunks)


def _count(
    slot: CountSlot, code: Emitted, schedule: Schedule, place: Place, scratch: ScratchLayout
) -> int:
    match slot.of:
        case Rows() as rows:
            return place.count(rows)
        case "blocks":
            return cuts.block_order(place.index(""), schedule.block_nodes).numel()
        case "hubs":
            return cuts.num_hubs(place.index(""), schedule.block_nodes)
        case "scratch_stride":
            return scratch.stride
        case "scratch_start":
            return scratch.offsets[slot.scratch]
        case "chunk_blocks":
            return _chunks(code, place).groups.num_blocks
        case "row_blocks":
            groups = next(s for s in code.pointers if isinstance(s, GroupsSlot) and not s.blocked)
            return _groups(groups, schedule, place).num_blocks
    raise AssertionError(f"no such count: {slot}")
