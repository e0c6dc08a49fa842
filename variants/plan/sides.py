"""Graphs of one side, where all edge types have their smaller rows on the same one.

There a hybrid plan does what the plan of that side does, which is planned for it and nothing else.
So that is what runs there, whichever of the two is asked for: on such a graph they are one variant.
"""

from __future__ import annotations

import functools
from collections.abc import Container
from typing import Literal, TypeAlias

from hetune.variants.plan.variants import (
    SEPARATE_PRODUCTS,
    SEPARATE_SUMS,
    SHARED_OUT,
    USUAL,
    Variant,
    device_of,
    is_special,
    plan_of,
)
from hetune.variants.program.nodes import Program

Side: TypeAlias = Literal["", "src", "dst"]
"""On which side of a graph hybrid plans transform all of its edge types; none: on both."""
WIDE = 128
"""Elements of a row from which on blocks have 256 nodes as a rule, and not 1024."""


def side_of(share: float) -> Side:
    """The side that a graph has alone, by the share of its edges that hybrid plans take at sources.

    A graph without edges has the side that ties go to.
    """
    return "dst" if share == 0 else "src" if share == 1 else ""


def depends_on_side(variant: str) -> bool:
    """Whether it may be another variant that runs under an id on graphs of one side."""
    return "hybrid" in variant


def id_on(variant: str, side: Side, known: Container[str]) -> str:
    """The id of what a variant runs on graphs of a side: that side's plan in place of a hybrid one.

    Args:
        variant: Its id.
        side: The side that the graph has alone, if it has.
        known: Ids of what there is; without the plan of that side, a hybrid one runs itself.
    """
    plan, slash, schedule = variant.rpartition("/")
    found = f"{_plan_on(plan, side)}{slash}{schedule}"
    return found if found in known else variant


@functools.lru_cache(maxsize=256)
def run_on(variants: tuple[Variant, ...], side: Side) -> tuple[Variant, ...]:
    """For each of a layer's variants what it runs on graphs of a side, in their order: `id_on`."""
    by_id = {variant.id: variant for variant in variants}
    return tuple(by_id[id_on(variant.id, side, by_id)] for variant in variants)


@functools.lru_cache(maxsize=256)
def usual(variants: tuple[Variant, ...], side: Side = "") -> Variant:
    """What to run where predictions cannot tell: the plan that adapts to graphs most by itself.

    Alternatives are listed from the least adaptive to the most, so it is the last plan: for layers
    with default options the hybrid one, which decides relation by relation. Its schedule is that
    of the layer's widths.

    Args:
        variants: All of a layer.
        side: The side that a graph has alone. On GPUs all have that of the sources.
    """
    device = device_of(variants)
    plans = (plan_of(variant.id) for variant in reversed(variants))
    plan = next((name for name in plans if not is_special(name)), "")
    if device == "cuda":
        # Rows of sources are summed in order, by chunks; those of destinations by atomic additions.
        side, schedule = "src", SHARED_OUT
    else:
        schedule = _blocks(variants[0].plan.program)
    by_id = {variant.id: variant for variant in variants}
    wanted = f"{_plan_on(plan, side)}/{schedule}", f"{plan}/{schedule}", f"{plan}/{USUAL[device]}"
    return next((by_id[id] for id in wanted if id in by_id), variants[-1])


def _blocks(program: Program) -> str:
    """The size of blocks that layers of such widths have as a rule, as variants' ids name it.

    What the nodes of a block sum up stays in a core's cache then.
    """
    rows = [param.type for param in program.params if param.role == "feature"]
    widest = max(kind.width for kind in (*rows, program.type_of(program.result)))
    return "b256" if widest >= WIDE else USUAL["cpu"]


def _plan_on(plan: str, side: Side) -> str:
    """The name that a plan has on graphs of a side, whether there is one or not."""
    if not side or not depends_on_side(plan):
        return plan
    name = plan.replace("hybrid", side)
    if side == "src":  # where products are apart from sums in any form
        name = name.removesuffix(SEPARATE_SUMS).removesuffix(SEPARATE_PRODUCTS)
    return name
