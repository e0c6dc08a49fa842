"""Compiling ahead of time: every launch of every promoted variant, into the registry."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from hetune.variants.backends.cpp.backend import CppBackend
from hetune.variants.backends.triton.ahead import capability_of, gpu_registry
from hetune.variants.backends.triton.backend import TritonBackend
from hetune.variants.backends.triton.precision import PRECISIONS
from hetune.variants.errors import InputError
from hetune.variants.frontend.kernels import (
    aggregate_program,
    attention_program,
    linear_program,
)
from hetune.variants.frontend.layers import hgt_program, rgat_program, rgcn_program
from hetune.variants.graph.index_primitives import primitives
from hetune.variants.plan.variants import Device, Variant, variants_of
from hetune.variants.program.nodes import Program
from hetune.variants.registry import BuildReport, KernelSource, Registry, default_registry

LAYERS = ("rgcn", "rgat", "hgt")
KERNELS = ("linear", "aggregate", "attention")
"""What layers are made of: measured on their own, and no layers."""
WITHOUT_HEADS = frozenset({"rgcn", "linear", "aggregate"})
"""Layers and kernels that have one head, whatever is asked for."""
KEEP_WIDTH = frozenset({"aggregate", "attention"})
"""Kernels whose rows go out as wide as they come in."""
WIDTHS = (32, 64, 128)
MOST_WIDTH = 1 << 16


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


def layer_programs(layer: str, width: int, heads: int = 1) -> tuple[Program, ...]:
    """The programs of a layer with default options, of `hetune.nn` and of PyG.

    Rows in and out have the same width, that of all heads together. With several heads the two
    libraries differ in what RGAT's attention vectors meet, and both programs are given.

    Args:
        layer: "rgcn", "rgat" or "hgt".
        width: Width of the rows.
        heads: Number of heads; RGCN has none.

    Raises:
        InputError: There is no such layer, or as `check_widths`.
    """
    check_widths(width, heads)
    programs = [layer_program(layer, width, width, heads)]
    if layer == "rgat" and heads > 1:
        programs.append(rgat_program(width, width // heads, heads, attention="shared"))
    return tuple(programs)


def layer_program(layer: str, d_in: int, d_out: int, heads: int = 1) -> Program:
    """The program of a layer of `hetune.nn` with default options.

    Args:
        layer: "rgcn", "rgat" or "hgt".
        d_in: Width of the rows that come in.
        d_out: Width of the rows that go out, all heads together.
        heads: Number of heads; RGCN has none.

    Raises:
        InputError: There is no such layer, or as `check_widths`.
    """
    check_widths(d_in, 1)
    check_widths(d_out, heads)
    match layer:
        case "rgcn":
            return rgcn_program(d_in, d_out)
        case "rgat":
            attention = "per_head" if heads > 1 else "shared"
            return rgat_program(d_in, d_out // heads, heads, attention=attention)
        case "hgt":
            return hgt_program(d_in, d_out, heads)
    raise InputError(f"no layer {layer!r}: take one of {', '.join(LAYERS)}")


def kernel_program(kernel: str, d_in: int, d_out: int, heads: int = 1) -> Program:
    """The program of a single kernel.

    Args:
        kernel: "linear", "aggregate" or "attention".
        d_in: Width of the rows that come in.
        d_out: Width of the rows that go out, all heads together; only "linear" changes it.
        heads: Number of heads; only "attention" has several.

    Raises:
        InputError: There is no such kernel, the widths differ where they must not, or as
            `check_widths`.
    """
    check_widths(d_in, 1)
    check_widths(d_out, heads)
    if kernel in KEEP_WIDTH and d_in != d_out:
        raise InputError(
            f"rows of width {d_in} are as wide after {kernel!r}, not {d_out}: take equal widths"
        )
    match kernel:
        case "linear":
            return linear_program(d_in, d_out)
        case "aggregate":
            return aggregate_program(d_in)
        case "attention":
            return attention_program(d_in, heads)
    raise InputError(f"no kernel {kernel!r}: take one of {', '.join(KERNELS)}")


def check_widths(width: int, heads: int) -> None:
    """Checks that rows divide into heads.

    Raises:
        InputError: They do not, or a number is below 1, or the width above `MOST_WIDTH`.
    """
    if width < 1 or heads < 1:
        raise InputError(f"width {width} with {heads} heads: both are at least 1")
    if width > MOST_WIDTH:
        raise InputError(f"width {width}: take at most {MOST_WIDTH}")
    if width % heads:
        raise InputError(f"width {width} does not divide into {heads} heads: take a multiple")


def sources_of(
    variants: Iterable[Variant], backend: CppBackend | TritonBackend | None = None
) -> tuple[KernelSource, ...]:
    """The different kernels that variants are made of, in a stable order."""
    backend = backend or CppBackend()
    sources = {
        backend.source(launch, schedule): None
        for variant in variants
        for launch, schedule in zip(variant.plan.launches, variant.schedules, strict=True)
    }
    return tuple(sources)


def build(
    programs: Iterable[Program],
    *,
    registry: Registry | None = None,
    jobs: int | None = None,
    progress: Callable[[int, int, str], None] | None = None,
    device: str = "cpu",
    precision: str = "ieee",
    keep: Callable[[str], bool] = lambda variant: True,
) -> LayersBuild:
    """Compiles what the registry does not have yet of all the programs' promoted variants.

    For this CPU, the routines that index graphs are compiled along, into the process's own
    registry. For a GPU, which need not be here, Triton compiles.

    Args:
        programs: E.g. those of `layer_programs`; equal ones are compiled once.
        registry: Where to; the process's own if None, or for a GPU `gpu_registry`.
        jobs: Compilers at once; by default HETUNE_JOBS, or else one per processor.
        progress: Called after each kernel with how many are done, how many there are, and the
            kernel's name.
        device: ``"cpu"``, or a GPU by its compute capability: ``"cuda:sm_90"``.
        precision: Of products on a GPU: ``"ieee"``, ``"tf32"`` or ``"bf16"``.
        keep: Which variants, by id.

    Raises:
        InputError: There is no such device or precision.
        CompileError: There is no compiler. (A kernel that fails is reported, not raised.)
        RegistryError: The registry's folder cannot be written.
    """
    target: Device = "cpu" if device == "cpu" else "cuda"
    variants = [
        variant
        for program in dict.fromkeys(programs)
        for variant in variants_of(program, target)
        if keep(variant.id)
    ]
    if device != "cpu":
        if precision not in PRECISIONS:
            raise InputError(f"no precision {precision!r}: take one of {', '.join(PRECISIONS)}")
        registry = registry or gpu_registry(capability_of(device))
        backend = TritonBackend(precision)
        sources = sources_of(variants, backend)
        report = registry.build(sources, jobs=jobs, progress=progress)
        return LayersBuild(len(variants), len(sources), report)
    sources = sources_of(variants)
    report = (registry or default_registry()).build(sources, jobs=jobs, progress=progress)
    primitives()
    return LayersBuild(len(variants), len(sources), report)
