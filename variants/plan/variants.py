"""Variants: every plan of a program with every schedule worth compiling."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from hetune.variants.kernel.device import Device
from hetune.variants.kernel.gpu_schedule import AnySchedule, GpuSchedule
from hetune.variants.kernel.nodes import Gemm, Outer, Schedule, SegmentSum
from hetune.variants.kernel.precision import Precision
from hetune.variants.kernel.text import show_schedule
from hetune.variants.plan.alternatives import alternatives
from hetune.variants.plan.choices import Choices, LoweringForm, PlanChoices
from hetune.variants.plan.lower import Lowering, lower
from hetune.variants.plan.nodes import Plan
from hetune.variants.plan.prune import undominated
from hetune.variants.program.nodes import Program, Softmax, Space
from hetune.variants.program.text import show

BLOCK_NODES = (256, 1024, 4096)
"""Block sizes that are compiled for every plan on a CPU that is not for special graphs."""
_TILES = {32: 4, 64: 4, 128: 8}
"""Rows of a product's tile on a GPU, and the warps of its program."""
_TRAVERSALS = {2048: 4, 4096: 8}
"""Elements that a traversal's program holds on a GPU, and the edges of each part among them."""
DEFAULT_SCHEDULES: Mapping[Device, AnySchedule] = MappingProxyType(
    {"cpu": Schedule(block_nodes=1024), "cuda": GpuSchedule()}
)
"""What is taken by default. On CPUs, plans with separate products have another one only."""


@dataclass(frozen=True, eq=False)
class Variant:
    """A plan with a schedule for each of its launches.

    Attributes:
        choices: What was decided.
        plan: What runs.
        schedules: One for each launch.
        key: Digest of all of this: equal keys mean equal code.
    """

    choices: Choices
    plan: Plan
    schedules: tuple[AnySchedule, ...]
    key: str

    @functools.cached_property
    def id(self) -> str:
        """Stable and readable, e.g. ``"hybrid+weights-first/b1024"``; printed, never parsed."""
        return self.choices.id

    @property
    def plan_id(self) -> str:
        """The plan's part of the id."""
        return self.choices.plan.id

    @property
    def has_default_schedule(self) -> bool:
        """Whether it runs in a default schedule."""
        return self.choices.schedule in DEFAULT_SCHEDULES.values()


@functools.lru_cache(maxsize=256)
def variants_of(
    program: Program, device: Device, precision: Precision = "float32"
) -> tuple[Variant, ...]:
    """The promoted variants of a layer's program for a device, in a stable order.

    With a precision of bf16, those that store tables so come after all that do not.

    A GPU has schedules of its own, and no plans for special graphs: products are separate there
    anyway, and scores on edges were not tried.
    """
    return tuple(
        _variant(Choices(choices, schedule), plan, schedule, text)
        for choices, plan in plans_of(program, device, precision).items()
        for text in (show(plan.program),)
        for schedule in _schedules_of(choices, device)
    )


def _schedules_of(plan: PlanChoices, device: Device) -> Iterable[AnySchedule]:
    if device == "cuda":
        return () if plan.is_special else gpu_schedules()
    # Separate products leave traversals to blocks, which care little for their size.
    if plan.form is LoweringForm.SEPARATE_PRODUCTS:
        return (Schedule(block_nodes=256),)
    if plan.is_special:
        return (DEFAULT_SCHEDULES["cpu"],)
    return (Schedule(block_nodes=nodes) for nodes in BLOCK_NODES)


def device_of(variants: Sequence[Variant]) -> Device:
    """What variants are made for: all of them for the same."""
    return "cuda" if isinstance(variants[0].schedules[0], GpuSchedule) else "cpu"


@functools.lru_cache(maxsize=256)
def plans_of(
    program: Program, device: Device, precision: Precision = "float32"
) -> dict[PlanChoices, Plan]:
    """The plans that no other one beats whatever the graph, and the program as it is written."""
    if precision == "bf16" and device == "cpu":
        wide = plans_of(program, device)
        return wide | _narrow_plans(wide)
    plans: dict[PlanChoices, Plan] = {}
    for alternative in alternatives(program):
        choices, lowering = PlanChoices(alternative.choices), Lowering(alternative.program, device)
        forms = {choices: (plan := lowering.plan())}
        forms |= {
            replace(choices, form=form): other
            for form, other in _separate_sums(alternative.program, lowering, plan)
        }
        if choices.is_special:
            forms = dict((forms.popitem(),))  # in one form, as in one schedule
        elif _is_hybrid(plan):
            forms[replace(choices, form=LoweringForm.SEPARATE_PRODUCTS)] = lower(
                alternative.program, device, fuse_sums=False, separate_products=True
            )
        plans |= forms
    return undominated(plans, kept=(PlanChoices(),))


def _narrow_plans(plans: Mapping[PlanChoices, Plan]) -> dict[PlanChoices, Plan]:
    """Those that have tables to store as bfloat16, with these so."""
    found: dict[PlanChoices, Plan] = {}
    for choices, plan in plans.items():
        as_narrow = replace(choices, narrow=True)
        narrow = lowered_as(plan.program, as_narrow)
        if narrow.launches != plan.launches:
            found[as_narrow] = narrow
    return found


def lowered_as(program: Program, choices: PlanChoices) -> Plan:
    """A program for CPUs in a plan's form, after its passes."""
    return lower(
        program,
        fuse_sums=choices.form is LoweringForm.FUSED,
        separate_products=choices.form is LoweringForm.SEPARATE_PRODUCTS,
        one_pass=choices.form is LoweringForm.ONE_PASS,
        narrow=choices.narrow,
    )


def _separate_sums(
    program: Program, lowering: Lowering, plan: Plan
) -> Iterator[tuple[LoweringForm, Plan]]:
    """The plan with sums apart from products; in one pass with a softmax, where that is possible.

    One pass reads a row once for its score and its sum, so it takes the place of separate ones.
    """
    separate, device = plan, lowering.device
    if _fused_sums(plan):
        lowering = Lowering(program, device, fuse_sums=False)
        separate = lowering.plan()
    if device == "cpu" and any(isinstance(let.op, Softmax) for let in program.lets):
        one_pass = lowering.plan(one_pass=True)
        if one_pass.launches != separate.launches:
            yield LoweringForm.ONE_PASS, one_pass
            return
    if any(isinstance(product, Gemm) and product.heads == 1 for product in _fused_sums(plan)):
        yield LoweringForm.SEPARATE_SUMS, separate


def gpu_schedules() -> tuple[GpuSchedule, ...]:
    """The schedules that every plan has on a GPU: none of them spills registers."""
    return tuple(
        GpuSchedule(tile_rows=rows, warps=warps, elements=elements, edges=edges)
        for rows, warps in _TILES.items()
        for elements, edges in _TRAVERSALS.items()
    )


def _variant(choices: Choices, plan: Plan, schedule: AnySchedule, text: str) -> Variant:
    described = f"{choices.plan.id}\n{text}{show_schedule(schedule)}"
    key = hashlib.sha256(described.encode()).hexdigest()
    return Variant(choices, plan, (schedule,) * len(plan.launches), key)


@functools.lru_cache(maxsize=4096)
def with_schedule(variant: Variant, schedule: AnySchedule) -> Variant:
    """The variant with this schedule for all launches, under the same id."""
    return _variant(variant.choices, variant.plan, schedule, show(variant.plan.program))


def _is_hybrid(plan: Plan) -> bool:
    """Whether each relation's products are of its smaller side, destination pairs among them."""
    products = (k.rows for launch in plan.launches for k in launch.kernels if isinstance(k, Gemm))
    pairs = [rows for rows in products if rows.space in (Space.SRC_PAIR, Space.DST_PAIR)]
    return all(rows.group for rows in pairs) and any(r.space is Space.DST_PAIR for r in pairs)


def _fused_sums(plan: Plan) -> list[Gemm | Outer]:
    """Products that sum up the rows that they multiply."""
    products = (
        k for launch in plan.launches for k in launch.kernels if isinstance(k, Gemm | Outer)
    )
    return [
        product
        for product in products
        for factor in ((product.factor,) if isinstance(product, Gemm) else product.factors)
        if isinstance(factor.x, SegmentSum)
    ]
