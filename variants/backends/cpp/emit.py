"""From a launch and its schedule to C++ source, and what to call it with."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import resources

from hetune.variants.backends.cpp.abi import Arguments, CountSlot, Slot
from hetune.variants.backends.cpp.codegen import print_unit
from hetune.variants.backends.cpp.lower import lower
from hetune.variants.backends.describe import launch_name
from hetune.variants.kernel.nodes import Launch, Outer, Schedule
from hetune.variants.kernel.text import show, show_schedule
from hetune.variants.kernel.verify import verify
from hetune.variants.registry.records import KernelSource


@dataclass(frozen=True, slots=True)
class Emitted:
    """A launch's source, and the pointers and counts that it is called with, in order."""

    source: KernelSource
    pointers: tuple[Slot, ...]
    counts: tuple[CountSlot, ...]


def emit(launch: Launch, schedule: Schedule) -> Emitted:
    """Print a launch as one C++20 translation unit.

    It exports ``int hetune_launch(void* const* pointers, const int64_t* counts, int threads)``.
    Results do not depend on the number of threads, bit by bit.

    Raises:
        KernelError: a kernel breaks a rule of the IR, or cannot be compiled as it stands.
    """
    verify(launch)
    recipe = f"{show(launch)}{show_schedule(schedule)}"
    arguments = Arguments(launch)
    unit = lower(launch, schedule, arguments, show_schedule(schedule))
    helpers = _prelude(*(("flush_denormals",) if isinstance(launch.kernels[0], Outer) else ()))
    source = KernelSource(launch_name(launch, recipe), f"{helpers}\n{print_unit(unit)}", recipe)
    return Emitted(
        source,
        tuple(slot for slot, _ in arguments.pointers),
        tuple(slot for slot, _ in arguments.counts),
    )


@cache
def _prelude(*more: str) -> str:
    names = "prelude", "functions", *more
    files = (resources.files(__package__) / f"{name}.hpp" for name in names)
    return "\n".join(file.read_text(encoding="utf-8") for file in files)
