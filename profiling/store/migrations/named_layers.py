"""What stores held of layers by name, widths and heads, turned into programs.

A unit's key is made anew where its graph's recipe is known, of a job or of a campaign that ships,
so that what was measured counts as done. So is the digest of a variant's code: the release that
turned names into programs compiles every variant that stayed as the one before it did.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

import sqlalchemy as sa

from hetune.profiling.campaign.read import PRESETS, load
from hetune.profiling.corpus import canonical
from hetune.profiling.records import PROTOCOLS
from hetune.profiling.units import GraphRecipe, ProblemSpec, Unit
from hetune.variants.errors import HetuneError
from hetune.variants.frontend.presets import labeled_preset
from hetune.variants.kernel.device import Device
from hetune.variants.plan.variants import variants_of
from hetune.variants.program.labeled import LabeledProgram

_PAGE = 500
_NAMES = ("layer", "d_in", "d_out", "heads")
_measurements = sa.table(
    "profiling_measurements",
    *map(sa.column, ("id", "unit", "program", "plan", "graph", "family", "threads", "variant")),
    *map(sa.column, ("protocol", "device", *_NAMES)),
)
_programs = sa.table("profiling_programs", *map(sa.column, ("digest", "label", "text")))
_job_units = sa.table(
    "profiling_job_units",
    sa.column("id"),
    sa.column("problem", sa.JSON),
    sa.column("variants", sa.JSON),
)
_Recipes = Mapping[str, set[GraphRecipe]]


def convert(connection: sa.Connection) -> None:
    """Fills the table and the columns of programs, which are there; the names are there, too."""
    plans, recipes = _same_code(connection), _recipes(connection)
    found = {
        program.digest: program
        for row in _rows(connection)
        if (program := _converted(connection, row, recipes, plans)) is not None
    }
    if found:
        rows = [{"digest": p.digest, "label": p.label, "text": p.text} for p in found.values()]
        connection.execute(_programs.insert(), rows)
    _convert_jobs(connection, plans)


def _rows(connection: sa.Connection) -> Iterator[sa.Row[Any]]:
    last = 0
    while True:
        wanted = sa.select(_measurements).where(_measurements.c.id > last)
        page = connection.execute(wanted.order_by(_measurements.c.id).limit(_PAGE)).all()
        yield from page
        if len(page) < _PAGE:
            return
        last = page[-1].id


@functools.lru_cache(maxsize=1024)
def _program(layer: str, d_in: int, d_out: int, heads: int) -> LabeledProgram | None:
    """None for what no hetune has ever measured: such a record counts as damaged."""
    try:
        return labeled_preset(layer, d_in, d_out, heads)
    except HetuneError:
        return None


@functools.lru_cache(maxsize=1024)
def _plans(program: LabeledProgram, device: Device) -> dict[str, str]:
    return {variant.id: variant.key for variant in variants_of(program.program, device)}


def _same_code(connection: sa.Connection) -> dict[str, str]:
    """Digests of code as of now, by those of before; of each variant the one measured last."""
    last: dict[tuple[LabeledProgram, Device, str], str] = {}
    for row in _rows(connection):
        if (program := _program(row.layer, row.d_in, row.d_out, row.heads)) is not None:
            last[program, row.device, row.variant] = row.plan
    return {
        plan: now
        for (program, device, variant), plan in last.items()
        if (now := _plans(program, device).get(variant)) is not None
    }


def _converted(
    connection: sa.Connection, row: sa.Row[Any], recipes: _Recipes, plans: Mapping[str, str]
) -> LabeledProgram | None:
    program = _program(row.layer, row.d_in, row.d_out, row.heads)
    if program is None:
        return None
    plan, unit = plans.get(row.plan, row.plan), row.unit
    for recipe in recipes.get(row.graph, ()) if row.protocol == PROTOCOLS[row.device] else ():
        if _key_of_before(row, recipe) == row.unit:
            problem = ProblemSpec(recipe, program, row.threads, row.device)
            unit = Unit(problem, row.variant, plan).key
    change = _measurements.update().where(_measurements.c.id == row.id)
    connection.execute(change.values(program=program.digest, plan=plan, unit=unit))
    return program


def _key_of_before(row: sa.Row[Any], graph: GraphRecipe) -> str:
    facts = [
        row.protocol,
        [graph.family, graph.kind, *map(list, graph.options)],
        [row.layer, row.d_in, row.d_out, row.heads, row.threads],
        [row.variant, row.plan],
        row.device,
    ]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def _recipes(connection: sa.Connection) -> _Recipes:
    """By name: those of jobs, and of the campaigns that ship."""
    problems = connection.execute(sa.select(_job_units.c.problem)).scalars()
    known = {_recipe(problem["graph"]) for problem in problems if problem}
    for preset in PRESETS:
        for graph in load(preset).graphs:
            known |= {graph, canonical(graph)}
    found: dict[str, set[GraphRecipe]] = {}
    for graph in known:
        found.setdefault(graph.name, set()).add(graph)
    return found


def _recipe(value: Mapping[str, Any]) -> GraphRecipe:
    options = tuple((name, option) for name, option in value["options"])
    return GraphRecipe(value["name"], value["family"], value["kind"], options)


def _convert_jobs(connection: sa.Connection, plans: Mapping[str, str]) -> None:
    for row in connection.execute(sa.select(_job_units)).all():
        if not row.problem:
            continue
        facts = {name: row.problem[name] for name in _NAMES}
        program = _program(**facts)
        if program is None:
            continue
        problem = {
            "graph": row.problem["graph"],
            "program": {"digest": program.digest, "text": program.text, "label": program.label},
            "threads": row.problem["threads"],
            "device": row.problem.get("device", "cpu"),
        }
        variants = [[variant, plans.get(plan, plan)] for variant, plan in row.variants]
        change = _job_units.update().where(_job_units.c.id == row.id)
        connection.execute(change.values(problem=problem, variants=variants))
