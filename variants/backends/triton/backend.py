"""Launches compiled by Triton: on a GPU, or interpreted on the CPU for tests."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hetune.variants.backends.base import Place, Runner
from hetune.variants.backends.slots import BufferSlot, IndexSlot, NodeTypeSlot
from hetune.variants.backends.triton.ahead import gpu_registry
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
from hetune.variants.backends.triton.driver import DriverError, Start, cuda_driver
from hetune.variants.backends.triton.emit import TritonSource, emit
from hetune.variants.backends.triton.lower import Lowered
from hetune.variants.backends.triton.parts import carried, parts_of, programs_of
from hetune.variants.backends.triton.precision import check_precision
from hetune.variants.backends.triton.tiles import Tiles, tiles_of
from hetune.variants.backends.triton.toolkit import interpreting, module_of
from hetune.variants.errors import CompileError
from hetune.variants.graph.device_index import DeviceIndex
from hetune.variants.kernel.device import Device
from hetune.variants.kernel.gpu_schedule import AnySchedule, GpuSchedule
from hetune.variants.kernel.nodes import Launch, Rows
from hetune.variants.kernel.passes.phases import phased
from hetune.variants.kernel.scratch import whole_scratch
from hetune.variants.registry import KernelSource, Registry

_ALIGNMENT = 16
"""Bytes at which pointers of kernels that were compiled ahead must lie."""
_ELEMENT = 4
"""Bytes of a float32."""
_APART = 128
"""Elements that parts of a launch's own memory begin at multiples of."""
_Start = tuple[int, tuple[int, int, int]]
_log = logging.getLogger(__name__)


class TritonBackend:
    """Triton, for CUDA tensors; with ``TRITON_INTERPRET=1`` in the environment, for CPU tensors.

    Kernels run on the caller's current stream, and what they need for a moment comes from torch's
    allocator.

    Args:
        precision: Of products: ``"ieee"`` (float32), ``"tf32x3"``, ``"tf32"`` or ``"bf16"``.
        schedule: How all launches are tiled, in place of what their variants say.
        registry_of: Where kernels may lie that were compiled ahead of time for a compute
            capability (times ten). Those that do not are compiled by Triton when they first run.

    Attributes:
        name: ``"triton"``, and what was given that is not the default.
        schedule: As given.

    Raises:
        KernelError: There is no such precision.
    """

    indexes_on_device = True
    keeps_indexes = True
    target: Device = "cuda"

    def __init__(
        self,
        precision: str = "ieee",
        schedule: GpuSchedule | None = None,
        registry_of: Callable[[int], Registry] = gpu_registry,
    ) -> None:
        self._precision, self.schedule = check_precision(precision), schedule
        given = [] if precision == "ieee" else [f"precision={precision}"]
        given += [] if schedule is None else [str(schedule)]
        self.name = f"triton ({' '.join(given)})" if given else "triton"
        self._registry_of = registry_of
        self._kernels: dict[tuple[str, torch.device], Mapping[str, Start]] = {}

    def refusal(self, device: torch.device) -> str:
        """Why it does not run on tensors of a device."""
        if device.type == "cuda" and interpreting():
            return "TRITON_INTERPRET is set, which is for tensors on the cpu: unset it"
        if device.type == "cuda" or (device.type == "cpu" and interpreting()):
            return ""
        mend = "move module, graph and features to the GPU"
        if not torch.cuda.is_available():
            mend = "torch sees no GPU here, so compile with backend='cpp'"
        return f"features are on {device}: the triton backend runs on cuda; {mend}"

    def is_ready(self, launch: Launch, schedule: AnySchedule) -> bool:
        """Never: Triton compiles at the first run, and its cache does not tell what it holds."""
        return False

    def source(self, launch: Launch, schedule: AnySchedule) -> KernelSource:
        """The module of a launch."""
        return self._emitted(launch, schedule).source

    def bind(self, launch: Launch, schedule: AnySchedule, place: Place) -> Runner:
        """Looks up what the launch needs of the graph, on the device of the place's indexes.

        Raises:
            CompileError: There is no triton, or the place's indexes are not `DeviceIndex`.
        """
        code = self._emitted(launch, schedule)
        module = module_of(code.source)
        device = _index(place, "").device
        loaded = self._loaded(code.source, device)
        scratch = whole_scratch(phased(launch), place.count)
        temporary = {b.name: b.scratch for b in phased(launch).buffers if b.scratch}
        for slot in {s for k in code.kernels for s in k.pointers if isinstance(s, CarrySlot)}:
            scratch[slot.name] = carried(slot.cut, place.index) * slot.width
            temporary[slot.name] = slot.name
        parts, elements = dict[str, slice](), 0
        for name, size in scratch.items():
            parts[name] = slice(elements, elements + size)
            elements += -(-size // _APART) * _APART
        own = {name: parts[of] for name, of in temporary.items()}
        calls = tuple(
            _Call(
                getattr(module, k.function.name), loaded.get(k.function.name), k, start, place, own
            )
            for k in code.kernels
            for start in _starts(k, place)
        )

        def allocated() -> Tensor:
            return torch.empty(elements, dtype=torch.float32, device=device)

        nothing = None if elements else allocated()

        def run(buffers: Mapping[str, Tensor]) -> None:
            memory = allocated() if nothing is None else nothing
            with _current(device):
                stream = torch.cuda.current_stream().cuda_stream if loaded else 0
                for call in calls:
                    call(buffers, memory, stream)

        return run

    def _emitted(self, launch: Launch, schedule: AnySchedule) -> TritonSource:
        """The launch as its variant wants it; one for a CPU says nothing of that."""
        wanted = schedule if isinstance(schedule, GpuSchedule) else GpuSchedule()
        return emit(launch, self.schedule or wanted, self._precision)

    def _loaded(self, source: KernelSource, device: torch.device) -> Mapping[str, Start]:
        """The launch's kernels as the registry has them for this GPU; none if it has not.

        Raises:
            CompileError: There is no CUDA driver.
        """
        if device.type != "cuda":
            return {}
        known = self._kernels.get((source.text, device))
        if known is not None:
            return known
        capability = torch.cuda.get_device_capability(device)
        registry = self._registry_of(10 * capability[0] + capability[1])
        key = registry.root, registry.key(source), device
        found = _LOADED.get(key, {})
        if not found and (binary := registry.find(source)) is not None:
            driver = cuda_driver()
            try:
                with torch.cuda.device(device):
                    torch.cuda.current_stream().synchronize()  # there is a context from here on
                    found = _LOADED[key] = driver.load(binary)
            except DriverError as error:
                if not error.is_kernel_s:
                    _log.warning("%s is compiled here, for the driver says %s", source.name, error)
                    return {}
                registry.reject(source, binary, str(error))
        self._kernels[source.text, device] = found
        return found


_LOADED: dict[tuple[Path, str, torch.device], Mapping[str, Start]] = {}
"""Kernels of registries by key and GPU: nobody unloads what another layer may be running."""


def _current(device: torch.device) -> Any:
    """What kernels are started under: the tensors' device; in the interpreter, numpy's silence."""
    if device.type == "cuda":
        return torch.cuda.device(device)
    # Lanes that are masked hold anything, and divide by it.
    return np.errstate(all="ignore")


class _Call:
    """Starts one kernel of a launch: from the registry where it is there, else through Triton.

    Args:
        kernel: Triton's.
        loaded: What starts it without Triton.
        lowered: What it is called with.
        start: Its first program, among those of all levels of parts, and its grid.
        place: The graph.
        own: Which part of the launch's own memory a buffer has.
    """

    def __init__(
        self,
        kernel: Any,
        loaded: Start | None,
        lowered: Lowered,
        start: _Start,
        place: Place,
        own: Mapping[str, slice],
    ) -> None:
        self._kernel, self._loaded, self._own = kernel, loaded, own
        self._options = {
            "num_warps": lowered.function.warps,
            "num_stages": lowered.function.stages,
            "enable_fp_fusion": True,
        }
        self._pointers = [
            slot.name if isinstance(slot, BufferSlot | CarrySlot) else _array(slot, place)
            for slot in lowered.pointers
        ]
        first, self._grid = start
        self._counts = tuple(
            first if isinstance(of, FirstProgram) else _count(of, place) for of in lowered.counts
        )
        names = [(i, of) for i, of in enumerate(self._pointers) if isinstance(of, str)]
        self._given = [(i, name) for i, name in names if name not in own]
        self._offsets = [(i, own[name].start * _ELEMENT) for i, name in names if name in own]
        # Addresses of what stays where it is, and room for those of every run.
        self._arguments = [0 if isinstance(p, str) else p.data_ptr() for p in self._pointers]
        self._arguments += self._counts
        known = self._arguments[: len(self._pointers)]
        self._aligned = not any(address % _ALIGNMENT for address in known)

    def __call__(self, buffers: Mapping[str, Tensor], memory: Tensor, stream: int) -> None:
        """Starts it.

        Args:
            buffers: The launch's, but for its own memory.
            memory: Its own.
            stream: The current one's handle.
        """
        if self._loaded is not None and self._aligned:
            arguments, low, start = self._arguments.copy(), 0, memory.data_ptr()
            for i, name in self._given:
                arguments[i] = address = buffers[name].data_ptr()
                low |= address
            for i, offset in self._offsets:
                arguments[i] = start + offset
            # What is compiled ahead takes for granted that rows begin where vectors may.
            if not low % _ALIGNMENT:
                self._loaded(self._grid, arguments, stream)
                return
        pointers = [self._tensor(p, buffers, memory) for p in self._pointers]
        self._kernel[self._grid](*pointers, *self._counts, **self._options)

    def _tensor(self, of: Tensor | str, buffers: Mapping[str, Tensor], memory: Tensor) -> Tensor:
        if not isinstance(of, str):
            return of
        return memory[self._own[of]] if of in self._own else buffers[of]


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


def _starts(lowered: Lowered, place: Place) -> Iterator[_Start]:
    """How often a kernel is started: once, or for each level of partial rows; never for none."""
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
