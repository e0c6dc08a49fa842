"""Launches compiled by Triton: on a GPU, or interpreted on the CPU for tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hetune.variants.backends.base import Place, Runner
from hetune.variants.backends.slots import BufferSlot, IndexSlot, NodeTypeSlot
from hetune.variants.backends.triton.arguments import (
    CountSlot,
    IdleNodesSlot,
    Slot,
    TilesSlot,
    Tiling,
)
from hetune.variants.backends.triton.emit import emit
from hetune.variants.backends.triton.lower import Lowered
from hetune.variants.backends.triton.schedule import TritonSchedule
from hetune.variants.backends.triton.tiles import Tiles, tiles_of
from hetune.variants.backends.triton.toolkit import interpreting, module_of
from hetune.variants.errors import CompileError
from hetune.variants.graph.device_index import DeviceIndex
from hetune.variants.kernel.nodes import Launch, Rows, Schedule
from hetune.variants.program.nodes import Space
from hetune.variants.registry import KernelSource


class TritonBackend:
    """Triton, for CUDA tensors; with ``TRITON_INTERPRET=1`` in the environment, for CPU tensors.

    Kernels run on the caller's current stream, and what they need for a moment comes from torch's
    allocator.

    Args:
        schedule: How launches are tiled. Those of variants, which are for CPUs, make no
            difference.
    """

    indexes_on_device = True

    def __init__(self, schedule: TritonSchedule | None = None) -> None:
        self.schedule = schedule or TritonSchedule()

    @property
    def name(self) -> str:
        """``"triton"``, and the schedule if it is not the default one."""
        return "triton" if self.schedule == TritonSchedule() else f"triton ({self.schedule})"

    def refusal(self, device: torch.device) -> str:
        """Why it does not run on tensors of a device."""
        if device.type == "cuda" and interpreting():
            return "TRITON_INTERPRET is set, which is for tensors on the cpu: unset it"
        if device.type == "cuda" or (device.type == "cpu" and interpreting()):
            return ""
        return f"features are on {device}: the triton backend runs on cuda"

    def is_ready(self, launch: Launch, schedule: Schedule) -> bool:
        """Never: Triton compiles at the first run, and its cache does not tell what it holds."""
        return False

    def source(self, launch: Launch, schedule: Schedule | None = None) -> KernelSource:
        """The module of a launch."""
        return emit(launch, self.schedule).source

    def bind(self, launch: Launch, schedule: Schedule, place: Place) -> Runner:
        """Looks up what the launch needs of the graph, on the device of the place's indexes.

        Raises:
            CompileError: There is no triton, or the place's indexes are not `DeviceIndex`.
        """
        code = emit(launch, self.schedule)
        module = module_of(code.source)
        device = _index(place, "").device
        calls = tuple(_call(getattr(module, k.function.name), k, place) for k in code.kernels)
        scratch = _scratch_sizes(launch, place)

        def run(buffers: Mapping[str, Tensor]) -> None:
            memory = {name: torch.empty(size, device=device) for name, size in scratch.items()}
            found = {**buffers, **{b.name: memory[b.scratch] for b in launch.buffers if b.scratch}}
            with _current(device):
                for call in calls:
                    call(found)

        return run


def _current(device: torch.device) -> Any:
    """What kernels are started under: the tensors' device; in the interpreter, numpy's silence."""
    if device.type == "cuda":
        return torch.cuda.device(device)
    # Lanes that are masked hold anything, and divide by it.
    return np.errstate(all="ignore")


def _call(kernel: Any, lowered: Lowered, place: Place) -> Callable[[Mapping[str, Tensor]], None]:
    """A function that starts a kernel over given buffers."""
    names = [slot.name if isinstance(slot, BufferSlot) else None for slot in lowered.pointers]
    fixed = [
        None if isinstance(slot, BufferSlot) else _array(slot, place) for slot in lowered.pointers
    ]
    counts = tuple(_count(slot, place) for slot in lowered.counts)
    grid = _programs(lowered, place)

    def call(buffers: Mapping[str, Tensor]) -> None:
        if not all(grid):
            return
        pointers = [
            array if name is None else buffers[name]
            for name, array in zip(names, fixed, strict=True)
        ]
        kernel[grid](
            *pointers,
            *counts,
            num_warps=lowered.warps,
            num_stages=lowered.stages,
            enable_fp_fusion=True,
        )

    return call


def _index(place: Place, group: str) -> DeviceIndex:
    index = place.index(group)
    if not isinstance(index, DeviceIndex):
        raise CompileError(
            "the triton backend walks indexes on the tensors' device: bind it to a "
            "Domain(graph, device)"
        )
    return index


def _tiles(tiling: Tiling, place: Place) -> Tiles:
    return tiles_of(tiling, place.graph, _index(place, tiling.rows.group))


def _array(slot: Slot, place: Place) -> Tensor:
    match slot:
        case IndexSlot(group=group, name=name):
            found = getattr(_index(place, group), name)
        case NodeTypeSlot():
            found = place.graph.ntype.to(_index(place, "").device)
        case TilesSlot(tiling=tiling, field=field):
            found = getattr(_tiles(tiling, place), field)
        case IdleNodesSlot(end=end):
            found = _index(place, "").nodes_without_edges(end)
        case BufferSlot():
            raise AssertionError("buffers are given with every run")
    assert isinstance(found, Tensor)
    return found


def _count(slot: CountSlot, place: Place) -> int:
    if isinstance(slot.of, Rows):
        return place.count(slot.of)
    return _array(slot.of, place).numel()


def _programs(lowered: Lowered, place: Place) -> tuple[int, int, int]:
    grid = lowered.grid
    if isinstance(grid.rows, Tiling):
        first = _tiles(grid.rows, place).count
    else:
        first = -(-_count(grid.rows, place) // grid.size)
    return first, grid.columns, grid.heads


def _scratch_sizes(launch: Launch, place: Place) -> dict[str, int]:
    """Elements of scratch buffers: here all rows are there at once."""
    sizes: dict[str, int] = {}
    for buffer in launch.buffers:
        if buffer.scratch:
            kind = buffer.type
            group = "" if kind.space is Space.EDGE else kind.group
            rows = place.count(Rows(kind.space, group))
            sizes[buffer.scratch] = max(sizes.get(buffer.scratch, 0), rows * kind.width)
    return sizes
