"""From a launch and its schedule to Triton source, and what to call it with."""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass

from hetune.variants.backends.triton.codegen import print_unit
from hetune.variants.backends.triton.lower import Lowered, lower
from hetune.variants.backends.triton.schedule import TritonSchedule
from hetune.variants.kernel.nodes import Gemm, Launch
from hetune.variants.kernel.text import show
from hetune.variants.registry.records import KernelSource

_NAME_LENGTH = 80


@dataclass(frozen=True, slots=True)
class Emitted:
    """A launch's module, and its kernels in the order in which they run."""

    source: KernelSource
    kernels: tuple[Lowered, ...]


@functools.lru_cache(maxsize=4096)
def emit(launch: Launch, schedule: TritonSchedule) -> Emitted:
    """Prints a launch as one Triton module.

    Raises:
        KernelError: a kernel cannot be compiled as it stands.
    """
    unit, kernels = lower(launch, schedule)
    recipe = f"{show(launch)}schedule {schedule}\n"
    return Emitted(KernelSource(_name(launch, recipe), print_unit(unit), recipe), kernels)


def _name(launch: Launch, recipe: str) -> str:
    """A readable name; a digest of the recipe keeps the names of a layer's kernels apart."""
    parts = ["triton"]
    for kernel in launch.kernels:
        if isinstance(kernel, Gemm):
            heads = f"{kernel.heads}x" if kernel.heads > 1 else ""
            parts.append(f"gemm-{kernel.rows.space}-{heads}{kernel.k}x{kernel.n}")
        else:
            parts.append(f"walk-{kernel.rows.space}")
    digest = hashlib.sha256(recipe.encode()).hexdigest()[:8]
    return f"{'-'.join(parts)[:_NAME_LENGTH]}-{digest}"
