"""Layers that nobody asked for, and single kernels, get their variants for free; all are right."""

from __future__ import annotations

from itertools import product

import pytest
import torch

from hetune.variants.backends.cpp.backend import CppBackend
from hetune.variants.plan.variants import variants_of
from hetune.variants.program.interpret import interpret
from hetune.variants.registry import default_registry
from hetune.variants.runtime.build import sources_of
from hetune.variants.runtime.domain import Domain
from hetune.variants.runtime.executable import Executable
from hetune.variants.runtime.given import weights_of
from hetune.variants.testing.conformance import TOLERANCE, relative_error
from hetune.variants.testing.graphs import AWKWARD
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
)
GRAPHS = ("several blocks", "hub", "relations without edges")
KERNELS = ("linear", "aggregate", "attention", "attention, 2 heads")
CASES = (*product(NAMES, GRAPHS), *product(KERNELS, AWKWARD))
VARIANTS = {
    name: [variant for variant in variants_of(PROGRAMS[name]) if each_plan(variant.id)]
    for name in (*NAMES, *KERNELS)
}


@pytest.fixture(scope="module")
def compiled() -> None:
    sources = sources_of([variant for found in VARIANTS.values() for variant in found])
    assert not default_registry().build(sources).failed


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize(("name", "graph"), CASES)
def test_variants(name, graph):
    program, graph = PROGRAMS[name], AWKWARD[graph]()
    values = random_parameters(program, graph)
    expected = interpret(program, values, graph)
    domain = Domain(graph)
    features = {p.name: values[p.name].float() for p in program.params if p.role == "feature"}
    if "c" in features:  # given in the graph's order of edges, kept in the index's
        features["c"] = features["c"][domain.index("").edge_id]
    for variant in VARIANTS[name]:
        executable = Executable(variant.plan, domain, CppBackend(), variant.schedules)
        for memory in executable.memory().values():
            memory.fill_(torch.nan)  # what is read but never written shows
        found = executable.run(features, weights_of(variant.plan, values, graph))
        assert relative_error(found, expected) <= TOLERANCE, variant.id
