"""Graphs that break careless code, on both backends."""

from __future__ import annotations

from functools import cache

import pytest

from hetune.variants.testing.conformance import check_variants
from hetune.variants.testing.graphs import AWKWARD
from hetune.variants.testing.layers import LAYERS

from .cases import Case, make_case
from .covering import chosen, each_plan

SHAPES = [(name, 7, 2 if 2 in layer.heads else 1) for name, layer in LAYERS.items()]
"""Narrow, and all plans of these are compiled for the matrix anyway."""


@cache
def case_of(graph: str, shape: tuple[str, int, int]) -> Case:
    return make_case(shape[0], AWKWARD[graph](), *shape[1:])


@pytest.mark.parametrize("backend", ["torch", "cpp"])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape[0])
@pytest.mark.parametrize("graph", AWKWARD)
def test_awkward(graph, shape, backend, compile_ahead):
    if backend == "cpp":
        compile_ahead([shape])
    case = case_of(graph, shape)
    keep = chosen(*shape) if backend == "cpp" else each_plan
    check_variants(case.module, case.graph, backend, expected=case.expected, keep=keep)
