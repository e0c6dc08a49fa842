"""Variants: every plan of a program with every schedule worth compiling."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, get_args

from hetune.variants.kernel.gpu_schedule import AnySchedule, GpuSchedule
from hetune.variants.kernel.nodes import Gemm, Schedule, SegmentSum
from hetune.variants.kernel.passes.edge_chunks import shares_edges
from hetune.variants.kernel.text import show_schedule
from hetune.variants.passes.enumerate import EDGE_SCORES, alternatives
from hetune.variants.plan.lower import lower
from hetune.variants.plan.nodes import Plan
from hetune.variants.plan.prune import undominated
from hetune.variants.program.nodes import Program, Space
from hetune.variants.program.text import show

Device: TypeAlias = Literal["cpu", "cuda"]
"""What a variant is made for."""
DEVICES: tuple[Device, ...] = get_args(Device)

SEPARATE_SUMS, SEPARATE_PRODUCTS = "+separate-sums", "+separate-products"
"""Ends of ids of plans that are lowered so."""
BLOCK_NODES = (256, 1024, 4096)
"""Block sizes that are compiled for every plan on a CPU that is not for special graphs."""
_TILES = {32: 4, 64: 4, 128: 8}
"""Rows of a product's tile on a GPU, and the warps of its program."""
_WALKS = {512: 2, 1024: 4, 2048: 8}
"""Elements that a traversal's program holds on a GPU, and the edges that it takes at once."""
_CHUNKS = (4096,)
"""Elements of a program where programs take edges, whichever nodes they lead to."""
USUAL: dict[Device, str] = {"cpu": "b1024", "cuda": "t64-e1024"}
"""The schedule that every plan has, and that its form is shown in, as variants' ids name it."""
SHARED_OUT = "t64-c4096"
"""The usual one on GPUs of plans that have it: no hub, of which nothing is known, slows it down."""


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
    schedules: tuple[AnySchedule, ...]
    key: str


@functools.lru_cache(maxsize=256)
def variants_of(program: Program, device: Device = "cpu") -> tuple[Variant, ...]:
    """The promoted variants of a layer's program for a device, in a stable order.

    A GPU has schedules of its own, and no plans for special graphs: products are separate there
    anyway, and scores on edges were not tried.
    """
    schedules = _gpu_schedules() if device == "cuda" else _cpu_schedules()
    return tuple(
        _variant(f"{name}/{schedule}", plan, schedules[schedule])
        for name, plan in _plans(program, device).items()
        for schedule in _schedules_of(name, device, schedules)
        if _matters(schedules[schedule], plan)
    )


def _schedules_of(plan: str, device: Device, schedules: Collection[str]) -> Collection[str]:
    """The schedules of a plan, by its name."""
    if not (special := _special_schedule(plan)):
        return schedules
    return (special,) if device == "cpu" else ()


def _special_schedule(plan: str) -> str:
    """The one schedule of a plan for special graphs; none where a plan may suit any.

    Separate products leave walks to blocks, which care little for their size.
    """
    if plan.endswith(SEPARATE_PRODUCTS):
        return "b256"
    return "b1024" if EDGE_SCORES in plan.split("+") else ""


def is_special(plan: str) -> bool:
    """Whether a plan of that name is for special graphs, and no usual one."""
    return bool(_special_schedule(plan))


def device_named(name: str) -> Device | None:
    """The device of that name, if there is one."""
    return next((device for device in DEVICES if device == name), None)


def plan_of(variant: str) -> str:
    """The plan that an id names."""
    return variant.rpartition("/")[0]


def is_usual(variant: str, device: Device) -> bool:
    """Whether an id is of its plan in `USUAL`, the schedule that every plan has."""
    return variant.endswith(f"/{USUAL[device]}")


def device_of(variants: Sequence[Variant]) -> Device:
    """What variants are made for: all of them for the same."""
    return "cuda" if isinstance(variants[0].schedules[0], GpuSchedule) else "cpu"


@functools.lru_cache(maxsize=256)
def _plans(program: Program, device: Device) -> dict[str, Plan]:
    """Those that no other one beats whatever the graph, by name."""
    plans: dict[str, Plan] = {}
    for alternative in alternatives(program):
        name, plan = alternative.id, lower(alternative.program, device)
        forms = {name: plan}
        if _has_fused_sums(plan):
            forms[f"{name}{SEPARATE_SUMS}"] = lower(alternative.program, device, fuse_sums=False)
        if _special_schedule(name):
            forms = dict((forms.popitem(),))  # in one form, as in one schedule
        elif _is_hybrid(plan):
            forms[f"{name}{SEPARATE_PRODUCTS}"] = lower(
                alternative.program, device, fuse_sums=False, separate_products=True
            )
        plans |= forms
    return undominated(plans)


def _matters(schedule: AnySchedule, plan: Plan) -> bool:
    """Whether a schedule that shares out edges finds any to share out."""
    if not isinstance(schedule, GpuSchedule) or schedule.balance != "edge":
        return True
    return any(shares_edges(launch, schedule) for launch in plan.launches)


def _cpu_schedules() -> dict[str, AnySchedule]:
    return {f"b{nodes}": Schedule(block_nodes=nodes) for nodes in BLOCK_NODES}


def _gpu_schedules() -> dict[str, AnySchedule]:
    found: dict[str, AnySchedule] = {}
    for rows, warps in _TILES.items():
        tiles = GpuSchedule(tile_rows=rows, warps=warps)
        for elements, edges in _WALKS.items():
            found[f"t{rows}-e{elements}"] = replace(tiles, elements=elements, edges=edges)
        for elements in _CHUNKS:
            found[f"t{rows}-c{elements}"] = replace(tiles, balance="edge", hub_elements=elements)
    return found


def _variant(id: str, plan: Plan, schedule: AnySchedule) -> Variant:
    described = f"{id.rpartition('/')[0]}\n{show(plan.program)}{show_schedule(schedule)}"
    return Variant(
        id,
        plan,
        (schedule,) * len(plan.launches),
        hashlib.sha256(described.encode()).hexdigest(),
    )


@functools.lru_cache(maxsize=4096)
def with_schedule(variant: Variant, schedule: AnySchedule) -> Variant:
    """The variant of that id as it is where all launches run by one schedule."""
    return _variant(variant.id, variant.plan, schedule)


def _is_hybrid(plan: Plan) -> bool:
    """Whether each relation's products are of its smaller side, destination pairs among them."""
    products = (k.rows for launch in plan.launches for k in launch.kernels if isinstance(k, Gemm))
    pairs = [rows for rows in products if rows.space in (Space.SRC_PAIR, Space.DST_PAIR)]
    return all(rows.group for rows in pairs) and any(r.space is Space.DST_PAIR for r in pairs)


def _has_fused_sums(plan: Plan) -> bool:
    return any(
        isinstance(kernel, Gemm) and isinstance(kernel.x, SegmentSum) and kernel.heads == 1
        for launch in plan.launches
        for kernel in launch.kernels
    )
