"""Programs that take rows of edges or constants, or return rows of edges, interpreted by Triton."""

from __future__ import annotations

import pytest

from hetune.variants.backends.triton.backend import TritonBackend
from hetune.variants.plan.variants import variants_of
from hetune.variants.program.interpret import interpret_results
from hetune.variants.testing.conformance import TOLERANCE, relative_error
from hetune.variants.testing.graphs import AWKWARD
from hetune.variants.testing.plans import run_results
from hetune.variants.testing.programs import PROGRAMS, random_parameters
from hetune.variants.testing.unusual import RESULTS

CASES = {**RESULTS, **{name: PROGRAMS[name] for name in ("edge weights, heads", "constants")}}


@pytest.mark.parametrize("name", CASES)
def test_every_plan_equals_the_interpreter(name):
    pytest.importorskip("triton", minversion="3.7.1")
    program, graph = CASES[name], AWKWARD["duplicate edges"]()
    values = random_parameters(program, graph)
    expected = interpret_results(program, values, graph)
    known = {variant.plan_id: variant for variant in variants_of(program, "cuda")}
    for variant in known.values():
        found = run_results(variant.plan, values, graph, TritonBackend(), variant.schedules)
        for rows, right in zip(found, expected, strict=True):
            assert relative_error(rows, right) <= TOLERANCE, variant.id
