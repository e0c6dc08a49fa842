"""Lowers a launch with its schedule to kernels: in order, each over all its rows."""

from __future__ import annotations

from dataclasses import dataclass

from hetune.variants.backends.triton.arguments import Arguments, Count, Grid, Slot
from hetune.variants.backends.triton.chunks import (
    ChunkLowering,
    IdleLowering,
    JoinLowering,
)
from hetune.variants.backends.triton.fill import FillLowering
from hetune.variants.backends.triton.gemm import GemmLowering
from hetune.variants.backends.triton.target import Function, Unit
from hetune.variants.backends.triton.traversal import TraversalLowering
from hetune.variants.backends.triton.values import HELPERS, SCANS
from hetune.variants.kernel.gpu_schedule import GpuSchedule
from hetune.variants.kernel.nodes import Gemm, Launch, Traversal
from hetune.variants.kernel.passes.edge_chunks import edge_loop
from hetune.variants.kernel.passes.gpu_kernels import gpu_kernels
from hetune.variants.kernel.passes.softmax_forms import expanded, running_maximum

_Walk = TraversalLowering | ChunkLowering | JoinLowering | IdleLowering
_Part = GemmLowering | FillLowering | _Walk
_PARTS = (ChunkLowering, JoinLowering, IdleLowering)
"""Of a Traversal that is shared out by edges, in the order in which they run."""


@dataclass(frozen=True, slots=True)
class Lowered:
    """One kernel, and how it is called.

    Attributes:
        function: The kernel.
        pointers: What its pointers are, in order.
        counts: What its counts are, after them.
        grid: How many programs it has.
    """

    function: Function
    pointers: tuple[Slot, ...]
    counts: tuple[Count, ...]
    grid: Grid


def lower(
    launch: Launch, schedule: GpuSchedule, precision: str = "ieee"
) -> tuple[Unit, tuple[Lowered, ...]]:
    """The launch as a module, and how its kernels are called.

    On a GPU a kernel runs over all its rows before the next one starts: nothing is blocked.

    Raises:
        KernelError: a kernel cannot be compiled as it stands.
    """
    launch = expanded(launch, running_maximum)
    lowered: list[Lowered] = []
    helpers: set[str] = set()
    for i, kernels in enumerate(gpu_kernels(launch.kernels, schedule)):
        name = f"kernel_{i}"
        parts: list[_Part] = []
        if isinstance(kernels[0], Gemm):
            parts += _products(kernels[0], name, launch, schedule, precision)
        else:
            walks = tuple(kernel for kernel in kernels if isinstance(kernel, Traversal))
            parts += _walks(walks, name, launch, schedule)
        for each in parts:
            lowered.append(_called(each.function(), each.args, each.grid))
            helpers |= each.helpers
    texts = tuple(text for fn, text in (HELPERS | SCANS).items() if fn in helpers)
    return Unit(
        f"precision={precision} {schedule}", texts, tuple(one.function for one in lowered)
    ), tuple(lowered)


def _walks(
    walks: tuple[Traversal, ...], name: str, launch: Launch, schedule: GpuSchedule
) -> list[_Walk]:
    if edge_loop(walks[0], schedule) is not None:
        (walk,) = walks
        return [part(walk, name, launch, schedule) for part in _PARTS]
    nodes = TraversalLowering(walks, name, launch, schedule)
    if nodes.hubs is None:
        return [nodes]
    return [nodes, TraversalLowering(walks, f"{name}_hubs", launch, schedule, hubs=True)]


def _products(
    gemm: Gemm, name: str, launch: Launch, schedule: GpuSchedule, precision: str
) -> list[GemmLowering | FillLowering]:
    product = GemmLowering(gemm, name, launch, schedule, precision)
    return [product, FillLowering(gemm, f"{name}_fill", launch)] if gemm.fill else [product]


def _called(function: Function, arguments: Arguments, grid: Grid) -> Lowered:
    return Lowered(
        function,
        tuple(slot for slot, _ in arguments.pointers),
        tuple(slot for slot, _ in arguments.counts),
        grid,
    )
