"""Lowering: launches that keep the IR's rules and compute what the program says."""

from __future__ import annotations

from functools import cache

import pytest

from hetune.variants.kernel.verify import verify
from hetune.variants.plan.alternatives import alternatives
from hetune.variants.plan.facts import reordered_features
from hetune.variants.plan.lower import lower
from hetune.variants.plan.nodes import Plan
from hetune.variants.program.interpret import interpret
from hetune.variants.testing.conformance import TOLERANCE, relative_error
from hetune.variants.testing.graphs import AWKWARD
from hetune.variants.testing.plans import run_plan
from hetune.variants.testing.programs import PROGRAMS, random_parameters

GRAPHS = {name: AWKWARD[name]() for name in ("no nodes", "no edges", "relations without edges")}


@cache
def plans(name: str) -> dict[tuple[str, bool], Plan]:
    """Of a program, each way of computing it, with fused sums and without."""
    return {
        (way.id, fused): lower(way.program, fuse_sums=fused)
        for way in alternatives(PROGRAMS[name])
        for fused in (True, False)
    }


@pytest.mark.parametrize("name", PROGRAMS)
def test_launches_keep_the_rules(name):
    for plan in plans(name).values():
        for launch in plan.launches:
            verify(launch)


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_buffer_is_given_temporary_or_scratch(name):
    for plan in plans(name).values():
        check_buffers(plan)


def check_buffers(plan: Plan) -> None:
    given = {param.name for param in plan.program.params}
    given |= {let.name for let in (*plan.weights, *plan.constants)}
    given -= {param.name for param in reordered_features(plan.program)}
    temporaries = {buffer.name for buffer in plan.temporaries}
    views = {view.name: view.base for view in plan.views}
    assert set(plan.results) <= temporaries
    assert not given & temporaries
    used: set[str] = set()
    scratch: set[str] = set()
    for launch in plan.launches:
        here = {b.scratch for b in launch.buffers if b.scratch}
        assert not here & (scratch | given | temporaries)  # scratch does not outlast its launch
        scratch |= here
        used |= {b.scratch or views.get(b.name, b.name) for b in launch.buffers}
    assert used <= given | temporaries | scratch
    assert temporaries <= used


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_plans_compute_the_program(name, graph):
    program, graph = PROGRAMS[name], GRAPHS[graph]
    values = random_parameters(program, graph)
    expected = interpret(program, values, graph)
    for way, plan in plans(name).items():
        found = run_plan(plan, values, graph)
        assert relative_error(found, expected) <= TOLERANCE, way
