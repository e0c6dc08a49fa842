"""Graphs of one side, where all edge types have their smaller rows on the same one.

There a hybrid plan does what the plan of that side does, which is planned for it and nothing else.
So that is what runs there, whichever of the two is asked for: on such a graph they are one variant.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace

from hetune.variants.kernel.gpu_schedule import AnySchedule
from hetune.variants.kernel.nodes import Schedule
from hetune.variants.plan.choices import Choices, LoweringForm, Side
from hetune.variants.plan.variants import DEFAULT_SCHEDULES, Variant, device_of
from hetune.variants.program.nodes import Program

WIDE = 128
"""Elements of a row from which on blocks have 256 nodes as a rule, and not 1024."""


def side_of(share: float) -> Side:
    """The side that a graph has alone, by the share of its edges that hybrid plans take at sources.

    A graph without edges has the side that ties go to.
    """
    return "dst" if share == 0 else "src" if share == 1 else ""


@functools.lru_cache(maxsize=256)
def run_on(variants: tuple[Variant, ...], side: Side) -> tuple[Variant, ...]:
    """For each of a layer's variants what it runs on graphs of a side, in their order.

    That is the plan of that side in place of a hybrid one, if there is one.
    """
    known = {variant.choices: variant for variant in variants}
    return tuple(_known(variant.choices.on(side), known) or variant for variant in variants)


def _known(choices: Choices, known: Mapping[Choices, Variant]) -> Variant | None:
    """What is so, or else does the same in one pass.

    Scores of all edges are not those of a side's: a hybrid plan may need passes of their own.
    """
    if choices.plan.form is LoweringForm.SEPARATE_SUMS and choices not in known:
        choices = replace(choices, plan=replace(choices.plan, form=LoweringForm.ONE_PASS))
    return known.get(choices)


@functools.lru_cache(maxsize=4096)
def id_on(variant: Variant, side: Side) -> str:
    """The id of what a variant runs on graphs of a side, if there is such a variant."""
    return variant.choices.on(side).id


@functools.lru_cache(maxsize=256)
def default_variant(variants: tuple[Variant, ...], side: Side = "") -> Variant:
    """What to run where predictions cannot tell: the plan that adapts to graphs most by itself.

    Alternatives are listed from the least adaptive to the most, so it is the last plan: for layers
    with default options the hybrid one, which decides relation by relation. Its schedule is that
    of the layer's widths.

    Args:
        variants: All of a layer.
        side: The side that a graph has alone. On GPUs all have that of the sources.
    """
    device = device_of(variants)
    plans = (variant.choices.plan for variant in reversed(variants))
    plan = next((each for each in plans if not each.is_special), None)
    if plan is None:
        return variants[-1]
    schedule: AnySchedule
    if device == "cuda":
        # Rows of sources are summed in order; those of destinations by atomic additions.
        side, schedule = "src", DEFAULT_SCHEDULES["cuda"]
    else:
        schedule = _blocks(variants[0].plan.program)
    known = {variant.choices: variant for variant in variants}
    wanted = (
        Choices(plan.on(side), schedule),
        Choices(plan, schedule),
        Choices(plan, DEFAULT_SCHEDULES[device]),
    )
    return next((known[choices] for choices in wanted if choices in known), variants[-1])


def _blocks(program: Program) -> AnySchedule:
    """The size of blocks that layers of such widths have as a rule.

    What the nodes of a block sum up stays in a core's cache then.
    """
    rows = [param.type for param in program.params if param.role == "feature"]
    widest = max(kind.width for kind in (*rows, *map(program.type_of, program.results)))
    return Schedule(block_nodes=256) if widest >= WIDE else DEFAULT_SCHEDULES["cpu"]
