"""Jobs for tests: made-up units, and made-up measurements of what was lent."""

from __future__ import annotations

from typing import Any

from hetune.profiling.jobs.records import Lease, MeasureTask
from hetune.profiling.records import Measurement
from hetune.profiling.testing.records import PROGRAM, measurement
from hetune.profiling.units import GraphRecipe, ProblemSpec, Unit


def some_units(problems: int, variants: int = 2, start: int = 0) -> tuple[Unit, ...]:
    """Made-up units: equal for equal arguments."""
    found = []
    for number in range(start, start + problems):
        graph = GraphRecipe(f"g{number}", "hubs", "typed", (("nodes", 30), ("seed", number)))
        problem = ProblemSpec(graph, PROGRAM, 4)
        found += [Unit(problem, f"v{n}", f"plan{n}") for n in range(variants)]
    return tuple(found)


def measured(lease: Lease, **changes: Any) -> list[Measurement]:
    """Made-up measurements of all that was lent."""
    assert isinstance(lease.work, MeasureTask)
    facts = {"machine": lease.machine, "campaign": lease.campaign, **changes}
    return [
        measurement(unit=unit.key, variant=unit.variant, plan=unit.plan, **facts)
        for unit in lease.work.units
    ]
