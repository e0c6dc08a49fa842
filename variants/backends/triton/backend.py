"""Launches compiled by Triton: on a GPU, or interpreted on the CPU for tests."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hetune.variants.backends.base import Place, Runner
from hetune.variants.backends.triton.ahead import gpu_registry
from hetune.variants.backends.triton.arguments import CarrySlot
from hetune.variants.backends.triton.bound_kernels import (
    BoundKernel,
    bound_kernels,
    device_index,
)
from hetune.variants.backends.triton.driver import DriverError, LoadedKernel, cuda_driver
from hetune.variants.backends.triton.emit import TritonSource, emit
from hetune.variants.backends.triton.native_start import (
    NativeLaunch,
    NativeStart,
    native_start,
    start_library,
)
from hetune.variants.backends.triton.parts import carried
from hetune.variants.backends.triton.precision import check_precision
from hetune.variants.backends.triton.toolkit import interpreting, module_of
from hetune.variants.errors import CompileError
from hetune.variants.kernel.device import Device
from hetune.variants.kernel.gpu_schedule import AnySchedule, GpuSchedule
from hetune.variants.kernel.nodes import Launch
from hetune.variants.kernel.passes.phases import phased
from hetune.variants.kernel.scratch import whole_scratch
from hetune.variants.registry import KernelSource, Registry

_ELEMENT = 4
"""Bytes of a float32."""
_APART = 128
"""Elements that parts of a launch's own memory begin at multiples of."""
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
        self._kernels: dict[tuple[str, torch.device], Mapping[str, LoadedKernel]] = {}

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
        device = device_index(place, "").device
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
        kernels = list[BoundKernel]()
        for lowered in code.kernels:
            name = lowered.function.name
            kernels += bound_kernels(lowered, getattr(module, name), loaded.get(name), place)
        return TritonRunner(tuple(kernels), own, elements, device)

    def registry(self, device: torch.device) -> Registry:
        """Where kernels may lie that were compiled ahead of time for a GPU."""
        major, minor = torch.cuda.get_device_capability(device)
        return self._registry_of(10 * major + minor)

    def _emitted(self, launch: Launch, schedule: AnySchedule) -> TritonSource:
        """The launch as its variant wants it; one for a CPU says nothing of that."""
        wanted = schedule if isinstance(schedule, GpuSchedule) else GpuSchedule()
        return emit(launch, self.schedule or wanted, self._precision)

    def _loaded(self, source: KernelSource, device: torch.device) -> Mapping[str, LoadedKernel]:
        """The launch's kernels as the registry has them for this GPU; none if it has not.

        Raises:
            CompileError: There is no CUDA driver.
        """
        if device.type != "cuda":
            return {}
        known = self._kernels.get((source.text, device))
        if known is not None:
            return known
        registry = self.registry(device)
        key = registry.root, registry.key(source), device
        found = _LOADED.get(key, {})
        if not found and (binary := registry.find(source)) is not None:
            driver = cuda_driver()
            try:
                start_library()
                with torch.cuda.device(device):
                    torch.cuda.current_stream().synchronize()  # there is a context from here on
                    found = _LOADED[key] = driver.load(binary)
            except CompileError as error:
                _log.warning("Triton starts %s, kernel by kernel: %s", source.name, error)
                return {}
            except DriverError as error:
                if not error.is_kernel_s:
                    _log.warning("%s is compiled here, for the driver says %s", source.name, error)
                    return {}
                registry.reject(source, binary, str(error))
        self._kernels[source.text, device] = found
        return found


_LOADED: dict[tuple[Path, str, torch.device], Mapping[str, LoadedKernel]] = {}
"""Kernels of registries by key and GPU: nobody unloads what another layer may be running."""


class TritonRunner:
    """Runs a launch: by one native call where its kernels are loaded, else through Triton.

    Args:
        kernels: What it starts, in order.
        own: Which part of its own memory a buffer has: float32 elements, by name.
        elements: Size of that memory.
        device: Where it is.
    """

    def __init__(
        self,
        kernels: tuple[BoundKernel, ...],
        own: Mapping[str, slice],
        elements: int,
        device: torch.device,
    ) -> None:
        self._kernels, self._own, self._elements, self.device = kernels, own, elements, device

    @property
    def launch(self) -> NativeLaunch:
        """What a native call for several launches takes of it."""
        offsets = {name: part.start * _ELEMENT for name, part in self._own.items()}
        return NativeLaunch(self._kernels, offsets, self._elements * _ELEMENT)

    @cached_property
    def _native(self) -> NativeStart | None:
        """Made when it is first called: most launches are started along with their plan."""
        return native_start([self.launch], self.device)

    def __call__(self, buffers: Mapping[str, Tensor]) -> None:
        """Starts the kernels.

        Args:
            buffers: The launch's, but for its own memory.
        """
        if self._native is not None and self._native(buffers):
            return
        memory = torch.empty(self._elements, dtype=torch.float32, device=self.device)
        tensors = {**buffers, **{name: memory[part] for name, part in self._own.items()}}
        with _current(self.device):
            for kernel in self._kernels:
                kernel.start(tensors)


def _current(device: torch.device) -> Any:
    """What kernels are started under: the tensors' device; in the interpreter, numpy's silence."""
    if device.type == "cuda":
        return torch.cuda.device(device)
    # Lanes that are masked hold anything, and divide by it.
    return np.errstate(all="ignore")
