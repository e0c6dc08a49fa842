"""The numbers of launches, against counting launch by launch."""

from __future__ import annotations

import numpy as np
import pytest

from hetune.costmodel.selection.selector import Selector
from hetune.variants.frontend.layers import hgt_program, rgat_program, rgcn_program
from hetune.variants.graph.cuts import block_count
from hetune.variants.graph.edge_batch import EdgeBatch
from hetune.variants.graph.index import GraphIndex
from hetune.variants.graph.type_chunks import edgewise_chunks, most_chunks, node_chunks
from hetune.variants.kernel.blocks import is_node_blocked
from hetune.variants.kernel.nodes import Gemm, Outer
from hetune.variants.kernel.passes.softmax_forms import expanded, if_moderate
from hetune.variants.kernel.passes.work import work
from hetune.variants.passes.backward import backward
from hetune.variants.plan.variants import variants_of
from hetune.variants.program.nodes import Space
from hetune.variants.program.text import parse
from hetune.variants.runtime.cost_estimates import RooflineEstimator
from hetune.variants.runtime.domain import Domain, split_relations
from hetune.variants.runtime.launch_columns import COLUMNS
from hetune.variants.runtime.table import PREPARATION, CandidateTable
from hetune.variants.testing.graphs import AWKWARD, typed_graph

PROGRAMS = {
    "rgcn": rgcn_program(16, 8),
    "rgat": rgat_program(16, 4, 2),
    "hgt": hgt_program(16, 8, 2),
}
MIXED = typed_graph((40, 300), [(0, 1, 200), (1, 0, 500), (0, 0, 0), (1, 1, 90)])


@pytest.fixture(params=PROGRAMS)
def table(request):
    return CandidateTable.of(variants_of(PROGRAMS[request.param], "cpu"))


def column(found: np.ndarray, name: str) -> np.ndarray:
    return found[:, COLUMNS.index(name)]


def test_a_row_is_a_launch_with_its_schedule(table):
    assert len(set(table.launches)) == len(table.launches)
    for variant, rows in zip(table.variants, table.rows_of, strict=True):
        counted = (expanded(launch, if_moderate) for launch in variant.plan.launches)
        pairs = tuple(zip(counted, variant.schedules, strict=True))
        assert tuple(table.launches[row] for row in rows) == pairs


def test_totals_add_up_the_launches_of_each_variant(table):
    seconds = np.arange(1.0, len(table.launches) + 1)
    assert table.totals(seconds).tolist() == [
        sum(seconds[row] for row in rows) for rows in table.rows_of
    ]


@pytest.mark.parametrize("make", [*AWKWARD.values(), lambda: MIXED], ids=[*AWKWARD, "mixed"])
def test_which_rows_have_anything_to_do(table, make):
    graph = make()
    domain = Domain(graph)
    assert table.runs(domain).tolist() == [domain.runs(launch) for launch, _ in table.launches]


@pytest.mark.parametrize(
    "estimator", [RooflineEstimator(), Selector()], ids=["roofline", "selector"]
)
def test_what_has_nothing_to_do_costs_nothing(table, estimator):
    graph = typed_graph((30, 30), [(0, 0, 90)])  # one relation, so one side is empty
    domain = Domain(graph)
    runs = table.runs(domain)
    estimates = estimator.estimate(table, domain, 2)
    assert not runs.all()
    assert (estimates.launches[runs] > 0).all()
    assert (estimates.launches[~runs] == 0).all()


@pytest.mark.parametrize("make", [*AWKWARD.values(), lambda: MIXED], ids=[*AWKWARD, "mixed"])
def test_work_is_that_of_each_launch(table, make):
    domain = Domain(graph := make())
    found = table.columns(domain)
    assert np.isfinite(found).all()
    assert (found >= 0).all()
    for row, (launch, schedule) in enumerate(table.launches):
        expected = work(launch, domain.count)
        for name in ("matrix_flops", "special", "read_bytes", "gathered_bytes", "scratch_bytes"):
            assert column(found, name)[row] == getattr(expected, name)
        blocks = block_count(GraphIndex.of(graph), schedule.block_nodes)
        assert column(found, "blocks")[row] == blocks


def test_weights_are_loaded_for_each_run_of_a_type(table):
    domain = Domain(MIXED)
    stats = GraphIndex.of(MIXED).relation_stats
    found = table.columns(domain)
    for row, (launch, schedule) in enumerate(table.launches):
        blocks = block_count(GraphIndex.of(MIXED), schedule.block_nodes)
        loads = 0
        for kernel in launch.kernels:
            if isinstance(kernel, Gemm) and launch.type_of(kernel.w).space is Space.ETYPE:
                group = kernel.rows.group
                chosen = split_relations(MIXED).groups[group] if group else range(MIXED.num_etypes)
                for relation in chosen:
                    runs = stats.edges[relation] > 0
                    if is_node_blocked(launch):
                        of = {Space.DST_PAIR: stats.dst_pairs, Space.EDGE: stats.edges}
                        runs = min(of[kernel.rows.space][relation], blocks)
                    loads += int(runs) * kernel.heads * kernel.k * kernel.n * 4
        assert column(found, "weight_loads")[row] == loads


@pytest.mark.parametrize(
    "name", ["no edges", "hub of thousands of edges", "thousands of relations"]
)
def test_sums_into_types_are_counted_by_chunks(name):
    program = PROGRAMS["hgt"]
    wanted = [param.name for param in program.params if param.role != "constant"]
    graph = AWKWARD[name]()
    domain = Domain(graph)
    for stage in backward(program, wanted).stages:
        if stage.is_weights:
            continue
        table = CandidateTable.of(variants_of(stage.program, "cpu"))
        found = table.columns(domain)
        for row, (launch, _) in enumerate(table.launches):
            kernel = launch.kernels[0]
            assert (table.families[row] == "outer") == isinstance(kernel, Outer)
            if isinstance(kernel, Outer):
                chunks = _chunks(kernel, launch.type_of(kernel.out), domain)
                size = 4 * launch.type_of(kernel.out).width
                assert column(found, "weight_groups")[row] == len(chunks)
                assert column(found, "weight_loads")[row] == len(chunks) * size
                assert column(found, "weight_bytes")[row] == len(set(chunks.tolist())) * size


def _chunks(kernel, into, domain):
    """The type of each chunk of an Outer's rows."""
    by_type, most = into.space is not Space.SHARED, most_chunks(into.width)
    if kernel.rows.space is Space.NODE:
        return node_chunks(domain.graph, by_type, most).groups.group_etype
    index = domain.index(kernel.rows.group)
    return edgewise_chunks(index, kernel.rows.space.value, by_type, most).groups.group_etype


def test_preparation_tells_plans_apart():
    table = CandidateTable.of(variants_of(PROGRAMS["rgcn"], "cpu"))
    found = table.preparation(Domain(MIXED))
    assert found.shape == (len(table.variants), len(PREPARATION))
    by_plan = {
        variant.id.rpartition("/")[0]: dict(zip(PREPARATION, row, strict=True))
        for variant, row in zip(table.variants, found.tolist(), strict=True)
    }
    assert by_plan["hybrid"]["regrouped_edges"] == 2 * MIXED.num_edges
    assert by_plan["src"]["regrouped_edges"] == 0
    assert by_plan["src"]["source_pairs"] > by_plan["dst"]["source_pairs"] == 0
    assert by_plan["dst"]["destination_pairs"] > 0


def test_a_batch_of_edges_is_prepared_where_a_plan_depends_on_its_ids():
    program = parse("""
        program rescal(x: node[8] feature, m: etype[8,8])
          h: edge[8] = take x edge src
          hm: edge[8] = linear h m
          t: edge[8] = take x edge dst
          s: edge[] = dot hm t
          return s
    """)
    table = CandidateTable.of(variants_of(program, "cpu"))
    graph = EdgeBatch(MIXED.src, MIXED.dst, MIXED.etype, num_nodes=MIXED.num_nodes)
    found = dict(zip((v.id for v in table.variants), table.preparation(Domain(graph)), strict=True))
    assert not found["vanilla/b1024"].any()
    by_pairs = dict(zip(PREPARATION, found["src+scores-src/b1024"].tolist(), strict=True))
    assert by_pairs.pop("source_pairs") > 0
    assert by_pairs.pop("launches") > 0
    assert not any(by_pairs.values())
    of_graph = table.preparation(Domain(MIXED))
    assert (of_graph[:, PREPARATION.index("edges")] == MIXED.num_edges).all()
