"""The roofline model and the choices made with it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from hetune.variants.frontend.layers import rgcn_program
from hetune.variants.frontend.presets import preset_program
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.reverse import reversed_graph
from hetune.variants.plan.sides import run_on
from hetune.variants.plan.variants import variants_of
from hetune.variants.runtime.choice import choose
from hetune.variants.runtime.cost_estimates import RooflineEstimator
from hetune.variants.runtime.domain import Domain, split_relations
from hetune.variants.runtime.memory import layout_of
from hetune.variants.runtime.roofline import MachineModel, roofline_seconds
from hetune.variants.runtime.table import CandidateTable
from hetune.variants.testing.graphs import AWKWARD, typed_graph

VARIANTS = variants_of(rgcn_program(64, 64), "cpu")


def fan_out(edges: int) -> HeteroGraph:
    """Few sources, many destinations."""
    return typed_graph((20, 5000), [(0, 1, edges)] * 3)


def fan_in(edges: int) -> HeteroGraph:
    return typed_graph((5000, 20), [(0, 1, edges)] * 3)


def plan_of(graph: HeteroGraph) -> str:
    return choose(VARIANTS, graph, RooflineEstimator()).id.partition("/")[0].partition("+")[0]


def test_the_side_with_fewer_pairs_is_transformed():
    assert plan_of(fan_out(40000)) == "src"
    assert plan_of(fan_in(40000)) == "dst"


def test_scores_stay_on_edges_only_where_rows_of_sources_fit_no_cache():
    graph, variants = fan_in(40000), variants_of(preset_program("rgat", 64, 64), "cpu")
    rows = graph.num_nodes * 64 * 4
    # Arithmetic is free here, so that reading rows once is predicted to pay on any graph.
    free = MachineModel(vector_flops=math.inf, matrix_flops=math.inf, special=math.inf)
    for shared, is_chosen in ((rows - 1, True), (rows, False)):
        choice = choose(variants, graph, RooflineEstimator(replace(free, shared_bytes=shared)))
        first = choice.candidates[0].id
        assert "edge-scores" in first
        assert (choice.id == first) is is_chosen
        assert ("(pays where rows" in str(choice)) is not is_chosen
    [alone] = (v for v in variants if v.id == first)
    assert choose((alone,), graph, RooflineEstimator()).id == first


class OfferingOne(RooflineEstimator):
    """Offers the variant alone that holds most."""

    def estimate(self, table, domain, threads):
        found = super().estimate(table, domain, threads)
        holds = [layout_of(v.plan, v.schedules, domain).peak_bytes for v in table.variants]
        return replace(found, offered=np.arange(len(holds)) == np.argmax(holds))


def test_where_none_that_is_offered_fits_the_fastest_of_the_others_runs():
    graph = fan_out(40000)
    expected = choose(VARIANTS, graph, RooflineEstimator())
    most = max(expected.candidates, key=lambda c: c.peak_bytes)
    alone = choose(VARIANTS, graph, OfferingOne())
    assert alone.id == most.id != expected.id
    assert alone.reason.startswith("the only plan")
    found = choose(VARIANTS, graph, OfferingOne(), memory_limit=most.peak_bytes - 1)
    assert (found.id, found.reason) == (expected.id, expected.reason)


@pytest.mark.parametrize("name", AWKWARD)
def test_every_graph_has_a_choice(name):
    graph = AWKWARD[name]()
    choice = choose(VARIANTS, graph, RooflineEstimator())
    assert {c.id for c in choice.candidates} == {v.id for v in run_on(VARIANTS, Domain(graph).side)}
    assert choice.chosen.seconds == min(c.seconds for c in choice.candidates)


def test_a_slower_machine_takes_longer():
    # Both groups of a hybrid plan have rows.
    domain = Domain(graph := typed_graph((20, 5000), [(0, 1, 4000), (1, 0, 4000), (0, 1, 4000)]))
    fast = MachineModel()
    slow = replace(
        fast,
        matrix_flops=fast.matrix_flops / 2,
        vector_flops=fast.vector_flops / 2,
        memory_rate=fast.memory_rate / 2,
    )
    columns = CandidateTable.of(VARIANTS).columns(domain)
    quick, slower = (roofline_seconds(columns, machine, 1) for machine in (fast, slow))
    assert (quick > 0).all()
    assert (quick < slower).all()
    assert graph.num_edges == 12000


def test_each_relation_goes_to_its_smaller_side():
    graph = typed_graph((4, 400), [(0, 1, 300), (1, 0, 300), (0, 0, 0)])
    turned = {"rs": (1,), "rd": (0, 2)}
    assert split_relations(graph).groups == {"s": (0,), "d": (1, 2), **turned}
    assert split_relations(reversed_graph(graph)).groups == {
        "s": (1,),
        "d": (0, 2),
        "rs": (0,),
        "rd": (1, 2),
    }
