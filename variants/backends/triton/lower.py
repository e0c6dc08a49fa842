"""Lowers a launch with its schedule to kernels: in order, each over all its rows."""

from __future__ import annotations

from dataclasses import dataclass

from hetune.variants.backends.triton.arguments import Count, Grid, Slot, TritonArguments
from hetune.variants.backends.triton.fill import FillLowering
from hetune.variants.backends.triton.gemm import TritonGemmLowering
from hetune.variants.backends.triton.outer import ClearLowering, TritonOuterLowering
from hetune.variants.backends.triton.shared import JoinLowering, SharedLowering
from hetune.variants.backends.triton.target import TritonFunction, TritonUnit
from hetune.variants.backends.triton.traversal import TritonTraversalLowering
from hetune.variants.backends.triton.values import HELPERS
from hetune.variants.kernel.gpu_schedule import GpuSchedule
from hetune.variants.kernel.nodes import Gemm, Launch, Outer, Traversal
from hetune.variants.kernel.passes.gpu_kernels import gpu_kernels
from hetune.variants.kernel.passes.phases import phase_of, phased

_Part = (
    TritonGemmLowering | FillLowering | TritonTraversalLowering | SharedLowering
    | ClearLowering | TritonOuterLowering
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Lowered:
    """One kernel, and how it is called.

    Attributes:
        function: The kernel.
        pointers: What its pointers are, in order.
        counts: What its counts are, after them.
        grid: How many programs it has.
    """

    function: TritonFunction
    pointers: tuple[Slot, ...]
    counts: tuple[Count, ...]
    grid: Grid


def lower(
    launch: Launch, schedule: GpuSchedule, precision: str = "ieee"
) -> tuple[TritonUnit, tuple[Lowered, ...]]:
    """The launch as a module, and how its kernels are called.

    On a GPU a kernel runs over all its rows before the next one starts: nothing is blocked.

    Raises:
        KernelError: a kernel cannot be compiled as it stands.
    """
    launch = phased(launch)
    lowered: list[Lowered] = []
    helpers: set[str] = set()
    for i, kernels in enumerate(gpu_kernels(launch)):
        name = f"kernel_{i}"
        parts: list[_Part] = []
        if isinstance(kernels[0], Gemm):
            parts += _products(kernels[0], name, launch, schedule, precision)
        elif isinstance(kernels[0], Outer):
            parts += _sums(kernels[0], name, launch, schedule, precision)
        else:
            walks = tuple(kernel for kernel in kernels if isinstance(kernel, Traversal))
            parts += _walks(walks, name, launch, schedule)
        for each in parts:
            lowered.append(_called(each.function(), each.args, each.grid))
            helpers |= each.helpers
    texts = tuple(text for fn, text in HELPERS.items() if fn in helpers)
    return TritonUnit(
        f"precision={precision} {schedule}", texts, tuple(one.function for one in lowered)
    ), tuple(lowered)


def _walks(
    walks: tuple[Traversal, ...], name: str, launch: Launch, schedule: GpuSchedule
) -> list[_Part]:
    phase = phase_of(walks[0], launch)
    if phase is None:
        return [TritonTraversalLowering(walks, name, launch, schedule)]
    parts = SharedLowering, JoinLowering
    return [part(walks[0], phase, name, launch, schedule) for part in parts]


def _products(
    gemm: Gemm, name: str, launch: Launch, schedule: GpuSchedule, precision: str
) -> list[TritonGemmLowering | FillLowering]:
    product = TritonGemmLowering(gemm, name, launch, schedule, precision)
    return [product, FillLowering(gemm, f"{name}_fill", launch)] if gemm.fill else [product]


def _sums(
    outer: Outer, name: str, launch: Launch, schedule: GpuSchedule, precision: str
) -> list[ClearLowering | TritonOuterLowering]:
    sums = TritonOuterLowering(outer, name, launch, schedule, precision)
    return [sums] if outer.accumulate else [ClearLowering(outer, f"{name}_clear", launch), sums]


def _called(function: TritonFunction, arguments: TritonArguments, grid: Grid) -> Lowered:
    return Lowered(
        function,
        tuple(slot for slot, _ in arguments.pointers),
        tuple(slot for slot, _ in arguments.counts),
        grid,
    )
