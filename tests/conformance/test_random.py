"""Graphs drawn by Hypothesis."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.full import FULL

from hetune.variants.testing.conformance import check_variants
from hetune.variants.testing.strategies import graphs

from .cases import make_case
from .covering import each_plan
from .test_awkward import SHAPES


@pytest.mark.parametrize(("backend", "examples"), [("torch", 7), ("cpp", 20)])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape[0])
def test_random_graphs(shape, backend, examples, compile_ahead):
    if backend == "cpp":
        compile_ahead([shape])

    @settings(
        max_examples=4 * examples if FULL else examples,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(graph=graphs(), seed=st.integers(0, 3))
    def check(graph, seed):
        case = make_case(shape[0], graph, *shape[1:], seed=seed)
        check_variants(
            case.module,
            graph,
            backend,
            expected=case.expected,
            keep=each_plan,
            seed=seed,
        )

    check()
