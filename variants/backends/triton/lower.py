"""Lowers a launch with its schedule to kernels: in order, each over all its rows."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

from hetune.variants.backends.triton.arguments import Arguments, Count, Grid, Slot
from hetune.variants.backends.triton.gemm import FillLowering, GemmLowering
from hetune.variants.backends.triton.schedule import TritonSchedule
from hetune.variants.backends.triton.target import Function, Unit
from hetune.variants.backends.triton.traversal import TraversalLowering
from hetune.variants.backends.triton.values import HELPERS
from hetune.variants.kernel.nodes import Gemm, Kernel, Launch, Rows, Traversal
from hetune.variants.kernel.one_pass import one_pass
from hetune.variants.program.nodes import Space


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


def as_run(launch: Launch, schedule: TritonSchedule) -> Launch:
    """The launch after what the schedule rewrites."""
    return one_pass(launch) if schedule.one_pass else launch


def lower(launch: Launch, schedule: TritonSchedule) -> tuple[Unit, tuple[Lowered, ...]]:
    """The launch as a module, and how its kernels are called.

    On a GPU a kernel runs over all its rows before the next one starts: nothing is blocked.
    Traversals over nodes that follow each other are one kernel, since a launch's later kernels
    read what earlier ones wrote in the rows of the same node only.

    Raises:
        KernelError: a kernel cannot be compiled as it stands.
    """
    launch = as_run(launch, schedule)
    lowered: list[Lowered] = []
    helpers: set[str] = set()
    for i, kernels in enumerate(_together(launch.kernels)):
        name = f"kernel_{i}"
        if isinstance(kernels[0], Gemm):
            lowered += _gemm(kernels[0], name, launch, schedule)
            continue
        walks = tuple(kernel for kernel in kernels if isinstance(kernel, Traversal))
        walk = TraversalLowering(walks, name, launch, schedule)
        both = [walk]
        if walk.hubs is not None:
            both.append(TraversalLowering(walks, f"{name}_hubs", launch, schedule, hubs=True))
        for each in both:
            lowered.append(_called(each.function(), each.args, each.grid))
            helpers |= each.helpers
    texts = tuple(text for fn, text in HELPERS.items() if fn in helpers)
    return Unit(str(schedule), texts, tuple(one.function for one in lowered)), tuple(lowered)


def _gemm(gemm: Gemm, name: str, launch: Launch, schedule: TritonSchedule) -> list[Lowered]:
    product = GemmLowering(gemm, name, launch, schedule)
    found = [_called(product.function(), product.args, product.grid)]
    if gemm.fill:
        fill = FillLowering(gemm, f"{name}_fill", launch)
        found.append(_called(fill.function(), fill.args, fill.grid))
    return found


def _called(function: Function, arguments: Arguments, grid: Grid) -> Lowered:
    return Lowered(
        function,
        tuple(slot for slot, _ in arguments.pointers),
        tuple(slot for slot, _ in arguments.counts),
        grid,
    )


def _together(kernels: tuple[Kernel, ...]) -> list[tuple[Kernel, ...]]:
    """Kernels that are one on a GPU."""
    found: list[tuple[Kernel, ...]] = []
    for walks, run in groupby(kernels, _walks_nodes):
        same = tuple(run)
        found += [same] if walks else [(kernel,) for kernel in same]
    return found


def _walks_nodes(kernel: Kernel) -> bool:
    return isinstance(kernel, Traversal) and kernel.rows == Rows(Space.NODE)
