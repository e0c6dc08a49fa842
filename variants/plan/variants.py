"""Variants: every plan of a program with every schedule worth compiling."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from hetune.variants.kernel.nodes import Gemm, Schedule, SegmentSum
from hetune.variants.kernel.text import show_schedule
from hetune.variants.passes.enumerate import alternatives
from hetune.variants.plan.lower import lower
from hetune.variants.plan.nodes import Plan
from hetune.variants.plan.prune import undominated
from hetune.variants.program.nodes import Program
from hetune.variants.program.text import show

BLOCK_NODES = (256, 1024, 4096, 16384)
"""Block sizes that are compiled for every plan."""
_USUAL = "/b1024"


@dataclass(frozen=True, eq=False)
class Variant:
    """A plan with a schedule for each of its launches.

    Attributes:
        id: Stable and readable, e.g. ``"hybrid+weights-first/b1024"``.
        plan: What runs.
        schedules: One for each launch.
        key: Digest of all of this: equal keys mean equal code.
    """

    id: str
    plan: Plan
    schedules: tuple[Schedule, ...]
    key: str


@functools.lru_cache(maxsize=256)
def variants_of(program: Program) -> tuple[Variant, ...]:
    """The promoted variants of a layer's program, in a stable order."""
    plans: dict[str, Plan] = {}
    for alternative in alternatives(program):
        plan = lower(alternative.program)
        plans[alternative.id] = plan
        if _has_fused_sums(plan):
            plans[f"{alternative.id}+separate-sums"] = lower(alternative.program, fuse_sums=False)
    kept = undominated(plans)
    return tuple(
        _variant(name, plan, Schedule(block_nodes=block_nodes))
        for name, plan in kept.items()
        for block_nodes in BLOCK_NODES
    )


def usual(variants: Sequence[Variant]) -> Variant:
    """What to run where nothing is known of the graph: the plan that adapts to it most by itself.

    Alternatives are listed from the least adaptive to the most, so it is the last plan: for layers
    with default options the hybrid one, which decides relation by relation.
    """
    return next((v for v in reversed(variants) if v.id.endswith(_USUAL)), variants[-1])


def _variant(name: str, plan: Plan, schedule: Schedule) -> Variant:
    described = f"{name}\n{show(plan.program)}{show_schedule(schedule)}"
    return Variant(
        f"{name}/b{schedule.block_nodes}",
        plan,
        (schedule,) * len(plan.launches),
        hashlib.sha256(described.encode()).hexdigest(),
    )


def _has_fused_sums(plan: Plan) -> bool:
    return any(
        isinstance(kernel, Gemm) and isinstance(kernel.x, SegmentSum) and kernel.heads == 1
        for launch in plan.launches
        for kernel in launch.kernels
    )
