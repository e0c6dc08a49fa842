"""Where and how problems are measured: on this CPU, or on a GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from hetune.costmodel.system import read_gpu_clocks
from hetune.profiling.measure.limits import usable_gpu_memory, usable_memory
from hetune.profiling.measure.reference import Reference, product
from hetune.profiling.measure.rounds import Yardstick
from hetune.profiling.measure.stopwatch import CudaStopwatch, Stopwatch, WallStopwatch
from hetune.variants.backends.base import Backend
from hetune.variants.backends.cpp.backend import CppBackend
from hetune.variants.backends.triton.ahead import gpu_registry, triton_version
from hetune.variants.backends.triton.backend import TritonBackend
from hetune.variants.compiler.pipeline import Compiler
from hetune.variants.errors import CompileError, VariantError, WorkerError
from hetune.variants.graph import index_native
from hetune.variants.kernel.device import DEVICES, Device
from hetune.variants.plan.variants import Variant
from hetune.variants.runtime.devices import torch_device

_SHORT = 2e-3
"""Seconds. Of a briefer run on a CPU a good part goes by until its code and rows are in caches that
another variant has used: nothing of it where a layer runs again and again.
"""

KernelProgress = Callable[[int, int, str], None]
"""How many kernels are compiled, how many there are, and the last one's name."""


@dataclass(frozen=True, slots=True)
class Bench:
    """Where and how problems are measured.

    Attributes:
        backend: What runs them.
        watch: Times runs.
        yardstick: Tells drift; kept from problem to problem, for what is usual there.
        device: Where tensors lie, and where torch's operators build the indexes; None for the CPU
            with indexes that are built natively.
        compile: Compiles the kernels of variants, several at once. One that does not compile is
            the loss of those that need it.
        compiles_late: Whether a first run may compile or load kernels, and says nothing therefore.
        short_seconds: A run that takes less is timed right after another one of the same variant.
        free_bytes: What a run may hold where no limit is given.
        clocks: As in `hetune.profiling.records.Measurement`, those of now.
        check: Called after a failure; raises `WorkerError` where it has cost this process the
            device.
    """

    backend: Backend
    watch: Stopwatch
    yardstick: Yardstick
    device: torch.device | None = None
    compile: Callable[[Sequence[Variant], KernelProgress], object] = lambda variants, progress: None
    compiles_late: bool = False
    short_seconds: float = 0.0
    free_bytes: Callable[[], int] = usable_memory
    clocks: Callable[[], tuple[float, ...]] = tuple
    check: Callable[[], None] = lambda: None


def bench_of(device: Device) -> Bench:
    """The bench of this CPU, or of this machine's GPU.

    Raises:
        VariantError, CompileError: As `place_of`.
    """
    place = place_of(device)
    return cpu_bench() if device == "cpu" else gpu_bench(place)


def place_of(device: Device) -> torch.device:
    """Where problems of a device are measured here.

    Raises:
        VariantError: There is no GPU, or Triton is told to interpret.
        CompileError: There is no Triton.
    """
    place = torch_device(device)
    if device == "cuda":
        triton_version()
        if refusal := TritonBackend().refusal(place):
            raise VariantError(refusal)
    return place


def devices_here() -> tuple[Device, ...]:
    """The devices that problems can be measured on here."""
    try:
        place_of("cuda")
    except (VariantError, CompileError):
        return ("cpu",)
    return DEVICES


def cpu_bench() -> Bench:
    """Compiled by C++, timed by a clock."""
    backend = CppBackend()

    def compile(variants: Sequence[Variant], progress: KernelProgress) -> None:
        index_native.library()
        backend.registry.build(Compiler(backend).emit(variants), progress=progress)

    return Bench(backend, WallStopwatch(), Reference(), compile=compile, short_seconds=_SHORT)


def gpu_bench(device: torch.device) -> Bench:
    """Compiled by Triton, timed by CUDA events.

    Kernels are compiled ahead for the card, so that it is waited for none but what its driver
    refuses.
    """
    backend, watch = TritonBackend(), CudaStopwatch()
    properties = torch.cuda.get_device_properties(device)
    registry = gpu_registry(10 * properties.major + properties.minor)

    def compile(variants: Sequence[Variant], progress: KernelProgress) -> None:
        registry.build(Compiler(backend).emit(variants), progress=progress)

    return Bench(
        backend,
        watch,
        Reference(product(device), watch),
        device=device,
        compile=compile,
        compiles_late=True,
        free_bytes=lambda: usable_gpu_memory(device),
        clocks=lambda: read_gpu_clocks(f"GPU-{properties.uuid}"),
        check=lambda: answers(watch.wait),
    )


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Torch, and the kernels of this process, use so many threads while it lasts."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def answers(wait: Callable[[], object]) -> None:
    """Checks that a GPU still answers, after something has failed on it.

    Raises:
        WorkerError: It does not: CUDA gives a process no GPU back whose memory was overrun.
    """
    try:
        wait()
    except RuntimeError as error:
        raise WorkerError(f"the GPU is lost to this process: {error}") from error
