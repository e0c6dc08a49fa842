"""Kernels bound to a graph: with their grids, counts and arrays, all but the addresses of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from hetune.variants.backends.base import Place
from hetune.variants.backends.slots import BufferSlot, IndexSlot, NodeTypeSlot
from hetune.variants.backends.triton.arguments import (
    CarrySlot,
    FirstProgram,
    IdleNodesSlot,
    Level,
    PartsSlot,
    Slot,
    TilesSlot,
    Tiling,
)
from hetune.variants.backends.triton.driver import LoadedKernel
from hetune.variants.backends.triton.lower import Lowered
from hetune.variants.backends.triton.parts import parts_of, programs_of
from hetune.variants.backends.triton.tiles import Tiles, tiles_of
from hetune.variants.errors import CompileError
from hetune.variants.graph.device_index import DeviceIndex
from hetune.variants.kernel.nodes import Rows

_Grid = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class BoundKernel:
    """One start of a kernel on a graph.

    Attributes:
        kernel: Triton's.
        loaded: The same, compiled ahead of time and loaded; None: it is not.
        lowered: What it is called with.
        grid: How many programs start.
        pointers: Arrays of the graph, and names of buffers, in order.
        counts: What follows them.
    """

    kernel: Any
    loaded: LoadedKernel | None
    lowered: Lowered
    grid: _Grid
    pointers: tuple[Tensor | str, ...]
    counts: tuple[int, ...]

    def start(self, buffers: Mapping[str, Tensor]) -> None:
        """Starts it through Triton, which compiles it where that was not done before."""
        function = self.lowered.function
        options = {
            "num_warps": function.warps,
            "num_stages": function.stages,
            "enable_fp_fusion": True,
        }
        pointers = (buffers[of] if isinstance(of, str) else of for of in self.pointers)
        self.kernel[self.grid](*pointers, *self.counts, **options)


def bound_kernels(
    lowered: Lowered, kernel: Any, loaded: LoadedKernel | None, place: Place
) -> Iterator[BoundKernel]:
    """A kernel as often as it starts: once, or for each level of partial rows; never for no rows.

    Args:
        lowered: What the kernel is called with.
        kernel: Triton's.
        loaded: The same, if it was compiled ahead of time.
        place: The graph.
    """
    starts = list(_starts(lowered, place))
    if not starts:
        return
    pointers = tuple(
        slot.name if isinstance(slot, BufferSlot | CarrySlot) else _array(slot, place)
        for slot in lowered.pointers
    )
    for first, grid in starts:
        counts = (
            first if isinstance(of, FirstProgram) else _count(of, place) for of in lowered.counts
        )
        yield BoundKernel(kernel, loaded, lowered, grid, pointers, tuple(counts))


def device_index(place: Place, group: str) -> DeviceIndex:
    """A group's index on the tensors' device.

    Raises:
        CompileError: It is one of the CPU.
    """
    index = place.index(group)
    if not isinstance(index, DeviceIndex):
        raise CompileError(
            "the triton backend walks indexes on the tensors' device: bind it to a "
            "Domain(graph, device)"
        )
    return index


def _tiles(tiling: Tiling, place: Place) -> Tiles:
    return tiles_of(tiling, place.graph, device_index(place, tiling.rows.group))


def _array(slot: Slot, place: Place) -> Tensor:
    match slot:
        case IndexSlot(group=group, name=name):
            found = getattr(device_index(place, group), name)
        case NodeTypeSlot():
            found = place.graph.ntype.to(device_index(place, "").device).contiguous()
        case TilesSlot(tiling=tiling, field=field):
            found = getattr(_tiles(tiling, place), field)
        case IdleNodesSlot(end=end):
            found = device_index(place, "").nodes_without_edges(end)
        case PartsSlot(table=table, field=field, loop=loop):
            of_programs = field in ("first", "most")
            columns = (
                programs_of(table, place.index) if of_programs else parts_of(table.cut, place.index)
            )
            found = getattr(columns, field)
            found = found[loop] if isinstance(found, tuple) else found
        case BufferSlot() | CarrySlot():
            raise AssertionError("buffers are given with every run")
    assert isinstance(found, Tensor)
    return found


def _count(of: Rows | IdleNodesSlot, place: Place) -> int:
    return place.count(of) if isinstance(of, Rows) else _array(of, place).numel()


def _starts(lowered: Lowered, place: Place) -> Iterator[tuple[int, _Grid]]:
    """First program and grid of each start."""
    grid = lowered.grid
    match grid.rows:
        case Level(table, joins):
            first, *others = programs_of(table, place.index).starts
            starts = others if joins else [first]
        case Tiling() as tiling:
            starts = [(0, _tiles(tiling, place).count)]
        case rows:
            starts = [(0, -(-_count(rows, place) // grid.size))]
    for first_program, count in starts:
        if count and grid.columns and grid.heads:
            yield first_program, (count, grid.columns, grid.heads)
