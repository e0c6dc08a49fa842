"""What runs layers: a backend, and the device that tensors are brought to for it."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Literal, Self, TypeAlias

import torch
from torch import Tensor

from hetune.service.core.formats.limits import ServiceLimits
from hetune.service.core.graphs.rows import Rows
from hetune.service.core.models.device import ComputeDevice, GpuDevice, Usage
from hetune.service.core.models.device_copies import DeviceCopies
from hetune.service.core.models.epilogue import Epilogue
from hetune.variants.backends.base import Backend
from hetune.variants.backends.triton.driver import DriverError
from hetune.variants.errors import (
    DeviceError,
    DeviceMemoryError,
    HetuneError,
    InputError,
    NotReadyError,
    RegistryError,
)
from hetune.variants.frontend.nn import RelationalLayer
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.vocabulary import Vocabulary
from hetune.variants.kernel.device import Device
from hetune.variants.kernel.precision import Precision
from hetune.variants.registry import KernelSource, default_registry
from hetune.variants.runtime.backends import backend_named
from hetune.variants.runtime.compile_layer import compile_layer
from hetune.variants.runtime.compiled import CompiledLayer
from hetune.variants.runtime.devices import torch_device

CudaGraph: TypeAlias = Literal["off", "auto", "on"]
_RECORDED: dict[CudaGraph, bool | None] = {"off": False, "auto": None, "on": True}
_PROBE = KernelSource("probe", 'extern "C" int hetune_probe() { return 0; }\n', "probe")
"""What a compiler is tried on."""
_log = logging.getLogger(__name__)
_USED = 0.9
"""Share of a GPU's memory that is counted on: other programs, and the driver, have the rest."""
_RUNS, _GRAPHS, _WEIGHTS = 3, 4, 12
"""Parts of that memory: for a run's features and outputs, and as much for what a layer holds beside
them; for copies of graphs; for weights."""


class Engine:
    """Runs compiled layers. Requests, graphs and answers are the host's; what runs is the device's.

    Args:
        backend: "cpp", "triton" or "torch", or a backend.
        device: The device; the host if None.
        cuda_graph: Whether runs that repeat are replayed as CUDA graphs, as `hetune.compile` takes
            it.
        most_bytes: To be held on a device that is not the host; nine tenths of its memory if None.

    Attributes:
        backend: What runs layers.
        device: Where.
        cuda_graph: Whether runs that repeat are replayed; None: where that should be faster.
        most_bytes: To be held on the device; None for the host.
        copies: Graphs that are there; None on the host, where no copies are needed.
    """

    def __init__(
        self,
        backend: str | Backend = "cpp",
        device: ComputeDevice | None = None,
        *,
        cuda_graph: bool | None = False,
        most_bytes: int | None = None,
    ) -> None:
        self.backend = backend_named(backend)
        self.device = device or ComputeDevice()
        self.cuda_graph = cuda_graph
        usage = self.device.usage()
        if most_bytes is None and usage is not None:
            most_bytes = int(_USED * usage.total)
        self.most_bytes = None if self.device.is_host else most_bytes
        self.copies: DeviceCopies | None = None
        if self.most_bytes is not None:
            self.copies = DeviceCopies(self.device.place, self.most_bytes // _GRAPHS)

    @classmethod
    def on(
        cls,
        device: str,
        backend: str | Backend | None = None,
        *,
        cuda_graph: CudaGraph = "off",
        most_bytes: int | None = None,
    ) -> Self:
        """The engine of a device that a user has named.

        Args:
            device: "cpu", "cuda" or "cuda:1".
            backend: The device's own if None: "cpp", or "triton" for a GPU.
            cuda_graph: "off"; "auto", where replaying runs is predicted to be faster; or "on".
            most_bytes: To be held on a GPU.

        Raises:
            VariantError: There is no such device, or it is not here.
            InputError: CUDA graphs are asked for without a GPU.
        """
        found = torch_device(device)
        if found.type == "cpu":
            if cuda_graph != "off":
                raise InputError(
                    f"cuda_graph is {cuda_graph}, which is for GPUs: set device to cuda, or leave "
                    "it out"
                )
            return cls(backend or "cpp")
        return cls(
            backend or "triton",
            GpuDevice(found),
            cuda_graph=_RECORDED[cuda_graph],
            most_bytes=most_bytes,
        )

    @property
    def target(self) -> Device:
        """What its variants are made for."""
        return self.backend.target

    @property
    def builds_for(self) -> str | None:
        """What kernels are compiled for ahead of time, as `build` takes it; None: they are not."""
        return "cpu" if self.backend.name == "cpp" else self.device.architecture

    def within(self, limits: ServiceLimits) -> ServiceLimits:
        """Limits that hold on the device, too."""
        if self.most_bytes is None:
            return limits
        return replace(limits, run_bytes=min(limits.run_bytes, self.most_bytes // _RUNS))

    def weight_bytes(self, limits: ServiceLimits) -> int:
        """Bytes of weights to hold."""
        if self.most_bytes is None:
            return limits.loaded_bytes
        return self.most_bytes // _WEIGHTS

    # What runs.

    def compiled(
        self,
        module: RelationalLayer,
        vocabulary: Vocabulary | None = None,
        precision: Precision = "float32",
    ) -> CompiledLayer:
        """A layer that is ready to run; its weights move to the device.

        Args:
            module: The layer.
            vocabulary: Names of the types that its weights are for, in their order.
            precision: What it may store tables in; on a GPU all layers compute as the backend does.

        Raises:
            DeviceError: The device fails, or has no memory left.
        """
        with self.guarded():
            moved = module.to(self.device.torch_device)
        # Whoever runs it names the variant: no cost model is asked here, or kept.
        return compile_layer(
            moved,
            backend=self.backend,
            cuda_graph=self.cuda_graph,
            vocabulary=vocabulary,
            precision=precision,
        )

    def epilogues(self, found: tuple[Epilogue, ...]) -> tuple[Epilogue, ...]:
        """What follows layers; its parameters move to the device.

        Raises:
            DeviceError: The device fails, or has no memory left.
        """
        device = self.device.torch_device
        with self.guarded():
            return tuple(finish.to(device) for finish in found)

    def graph(self, graph: HeteroGraph) -> HeteroGraph:
        """The host's graph on the device, where it is copied to but once.

        Raises:
            TooLargeError: It is over the device's limit.
        """
        return graph if self.copies is None else self.copies.of(graph)

    def fetch(self, rows: Rows) -> Rows:
        """Rows of the device, on the host."""
        if isinstance(rows, Tensor):
            return self.device.fetch(rows)
        return {name: self.device.fetch(part) for name, part in rows.items()}

    # When it fails.

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """While layers run: what the device fails with becomes an error of the service.

        Raises:
            DeviceMemoryError: The device has no memory left. What is kept there for later was given
                back.
            DeviceError: The device fails.
        """
        try:
            yield
        except (RuntimeError, DriverError) as error:
            is_full = isinstance(error, torch.OutOfMemoryError)
            if isinstance(error, HetuneError) or not (is_full or _is_device_s(error)):
                raise
            reason = _first_line(error)
            if not (is_full or "out of memory" in reason):
                raise DeviceError(
                    f"{self.device.torch_device} fails: {reason}; restart the service if it does "
                    "not become ready again"
                ) from error
            traceback.clear_frames(error.__traceback__)  # they hold what the run has computed
            _log.error("%s is out of memory: %s", self.device.torch_device, reason)
            self.release()
            raise DeviceMemoryError(
                f"{self.device.torch_device} has no memory left for this: ask again, for less "
                "(rows of some nodes, a lower memory_limit) or later; whoever runs the service may "
                "set device_memory lower, or end what else is on the GPU"
            ) from None

    def release(self) -> None:
        """Gives back what is kept on the device for later, but for weights."""
        if self.copies is not None:
            self.copies.clear()
        self.device.release()

    def check_compiler(self) -> None:
        """Checks that kernels can be compiled, where that is what runs layers.

        Raises:
            CompileError: There is no compiler, or none that works.
            RegistryError: There is no space for what it makes.
        """
        if self.backend.name == "cpp":
            default_registry().load(_PROBE)

    def check(self) -> None:
        """Checks that the device answers, and that another kernel could be kept.

        Raises:
            DeviceError: It does not answer.
            NotReadyError: There is no space for kernels.
        """
        if self.backend.name == "cpp":
            try:
                default_registry().check_room()
            except RegistryError as error:
                raise NotReadyError(str(error)) from error
        try:
            self.device.check()
        except RuntimeError as error:
            raise DeviceError(
                f"{self.device.torch_device} does not answer ({_first_line(error)}): restart the "
                "service, and look at what the driver says (nvidia-smi)"
            ) from error

    def usage(self) -> Usage | None:
        """How the device's memory is used; None for the host's, or if it does not say."""
        try:
            return self.device.usage()
        except RuntimeError:
            return None


def _is_device_s(error: Exception) -> bool:
    """Whether it is the device that fails: torch, the driver and Triton each say it their way."""
    return isinstance(error, torch.AcceleratorError | DriverError) or "[CUDA]" in str(error)


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
