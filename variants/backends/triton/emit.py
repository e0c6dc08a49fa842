"""From a launch and its schedule to Triton source, and what to call it with."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from hetune.variants.backends.describe import launch_name
from hetune.variants.backends.triton.codegen import print_unit
from hetune.variants.backends.triton.lower import Lowered, lower
from hetune.variants.kernel.gpu_schedule import GpuSchedule
from hetune.variants.kernel.nodes import Launch
from hetune.variants.kernel.text import show
from hetune.variants.kernel.verify import verify
from hetune.variants.registry.records import KernelSource


@dataclass(frozen=True, slots=True)
class TritonSource:
    """A launch's module, and its kernels in the order in which they run."""

    source: KernelSource
    kernels: tuple[Lowered, ...]


@functools.lru_cache(maxsize=4096)
def emit(launch: Launch, schedule: GpuSchedule, precision: str = "ieee") -> TritonSource:
    """Prints a launch as one Triton module.

    Raises:
        KernelError: a kernel breaks a rule of the IR, or cannot be compiled as it stands.
    """
    verify(launch)
    unit, kernels = lower(launch, schedule, precision)
    recipe = f"{show(launch)}schedule precision={precision} {schedule}\n"
    name = launch_name(launch, recipe, "triton")
    return TritonSource(KernelSource(name, print_unit(unit), recipe), kernels)
