"""Compiling ahead of time: every launch of every promoted variant, into the registry."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from hetune.variants.backends.triton.ahead import capability_of, gpu_registry
from hetune.variants.backends.triton.backend import TritonBackend
from hetune.variants.backends.triton.precision import PRECISIONS
from hetune.variants.compiler.pipeline import Compiler
from hetune.variants.errors import InputError
from hetune.variants.graph import index_native
from hetune.variants.kernel.device import Device
from hetune.variants.kernel.precision import Precision
from hetune.variants.plan.variants import Variant, variants_of
from hetune.variants.program.nodes import Program
from hetune.variants.registry import BuildReport, Registry, default_registry


@dataclass(frozen=True, slots=True)
class LayersBuild:
    """What `build` did.

    Attributes:
        variants: How many variants the programs have.
        kernels: How many different kernels those are made of.
        report: What the registry says of the kernels: built, reused, failed, seconds, bytes.
    """

    variants: int
    kernels: int
    report: BuildReport


def build(
    programs: Iterable[Program],
    *,
    registry: Registry | None = None,
    jobs: int | None = None,
    progress: Callable[[int, int, str], None] | None = None,
    device: str = "cpu",
    precision: str = "ieee",
    tables: Precision = "float32",
    keep: Callable[[Variant], bool] = lambda variant: True,
) -> LayersBuild:
    """Compiles what the registry does not have yet of all the programs' promoted variants.

    For this CPU, the routines that index graphs are compiled along, into the process's own
    registry. For a GPU, which need not be here, Triton compiles.

    Args:
        programs: E.g. those of `hetune.variants.frontend.presets`; equal ones are compiled once.
        registry: Where to; the process's own if None, or for a GPU `gpu_registry`.
        jobs: Compilers at once; by default HETUNE_JOBS, or else one per processor.
        progress: Called after each kernel with how many are done, how many there are, and the
            kernel's name.
        device: ``"cpu"``, or a GPU by its compute capability: ``"cuda:sm_90"``.
        precision: Of products on a GPU: ``"ieee"``, ``"tf32x3"``, ``"tf32"`` or ``"bf16"``.
        tables: What a CPU's variants may store tables in: the `precision` of `hetune.compile`.
        keep: Which variants.

    Raises:
        InputError: There is no such device or precision.
        CompileError: There is no compiler. (A kernel that fails is reported, not raised.)
        RegistryError: The registry's folder cannot be written.
    """
    target: Device = "cpu" if device == "cpu" else "cuda"
    variants = [
        variant
        for program in dict.fromkeys(programs)
        for variant in variants_of(program, target, tables)
        if keep(variant)
    ]
    if device != "cpu":
        if precision not in PRECISIONS:
            raise InputError(f"no precision {precision!r}: take one of {', '.join(PRECISIONS)}")
        registry = registry or gpu_registry(capability_of(device))
        sources = Compiler(TritonBackend(precision)).emit(variants)
        report = registry.build(sources, jobs=jobs, progress=progress)
        return LayersBuild(len(variants), len(sources), report)
    sources = Compiler.of("cpu").emit(variants)
    report = (registry or default_registry()).build(sources, jobs=jobs, progress=progress)
    index_native.library()
    return LayersBuild(len(variants), len(sources), report)
