"""Layers that nobody asked for, and single kernels, get their variants for free; all are right."""

from __future__ import annotations

from functools import cache
from itertools import product

import pytest
from tests.full import every

from hetune.variants.backends.cpp.backend import CppBackend
from hetune.variants.compiler.pipeline import Compiler
from hetune.variants.plan.variants import Variant, variants_of
from hetune.variants.program.interpret import interpret
from hetune.variants.registry import default_registry
from hetune.variants.testing.conformance import TOLERANCE, relative_error
from hetune.variants.testing.graphs import AWKWARD
from hetune.variants.testing.plans import run_plan
from hetune.variants.testing.programs import PROGRAMS, random_parameters

from .covering import each_plan

NAMES = (
    "rgcn, blocks",
    "rgat, 2 heads of their own",
    "rgat, vectors per relation",
    "edge weights, heads",
    "both ends",
    "typed sums",
    "products of sums",
    "two layers",
    "doubly weighted",
    "degrees",
    "own degrees",
    "functions",
    "side by side",
    "extremes",
    "gated",
    "scores of as many heads",
    "scores of pairs",
    "weighted heads",
    "shared heads",
    "weighted pairs",
    "many axes",
    "reshaped sum",
)
GRAPHS = ("several blocks", "hub", "relations without edges")
KERNELS = ("linear", "aggregate", "attention", "attention, 2 heads")
CASES = (*product(NAMES, GRAPHS), *product(KERNELS, AWKWARD))


@cache
def compiled(name: str) -> list[Variant]:
    """A variant of every third plan, or with HETUNE_FULL_MATRIX=1 of each."""
    found = [variant for variant in variants_of(PROGRAMS[name], "cpu") if each_plan(variant)]
    chosen = every(3, found, (*NAMES, *KERNELS).index(name))
    assert not default_registry().build(Compiler.of("cpu").emit(chosen)).failed
    return chosen


@pytest.mark.parametrize(("name", "graph"), CASES)
def test_variants(name, graph):
    program, graph = PROGRAMS[name], AWKWARD[graph]()
    values = random_parameters(program, graph)
    expected = interpret(program, values, graph)
    for variant in compiled(name):
        found = run_plan(variant.plan, values, graph, CppBackend(), variant.schedules)
        assert relative_error(found, expected) <= TOLERANCE, variant.id
