"""What runs on graphs of one side in place of hybrid plans, and that it is the same work."""

from __future__ import annotations

import pytest

from hetune.variants.frontend.layers import hgt_program, rgat_program, rgcn_program
from hetune.variants.kernel.device import DEVICES
from hetune.variants.plan.choices import LoweringForm
from hetune.variants.plan.sides import default_variant, run_on, side_of
from hetune.variants.plan.variants import DEFAULT_SCHEDULES, variants_of
from hetune.variants.runtime.domain import Domain
from hetune.variants.runtime.launch_columns import COLUMNS
from hetune.variants.runtime.table import CandidateTable
from hetune.variants.testing.graphs import typed_graph

PROGRAMS = {"rgcn": rgcn_program(16, 32), "rgat": rgat_program(16, 32), "hgt": hgt_program(16, 32)}
ONE_SIDED = {"src": [(0, 1, 400), (0, 1, 300)], "dst": [(1, 0, 400), (1, 0, 300)]}
"""Relations from few nodes to many, and from many to few."""


@pytest.mark.parametrize(("share", "side"), [(0.0, "dst"), (1.0, "src"), (0.5, ""), (1e-9, "")])
def test_a_side_has_all_edges(share, side):
    assert side_of(share) == side


def ids(layer, side, device="cpu"):
    variants = variants_of(PROGRAMS[layer], device)
    return {v.id: run.id for v, run in zip(variants, run_on(variants, side), strict=True)}


@pytest.mark.parametrize(
    ("layer", "variant", "side", "runs"),
    [
        ("rgcn", "hybrid/b256", "dst", "dst/b256"),
        ("rgcn", "hybrid/b256", "src", "src/b256"),
        ("rgcn", "hybrid/b256", "", "hybrid/b256"),
        ("rgcn", "hybrid+separate-sums/b256", "dst", "dst+separate-sums/b256"),
        ("rgcn", "hybrid+separate-sums/b256", "src", "src/b256"),
        ("rgcn", "hybrid+separate-products/b256", "src", "src/b256"),
        ("rgcn", "hybrid+separate-products/b256", "dst", "hybrid+separate-products/b256"),
        ("rgcn", "vanilla/b256", "dst", "vanilla/b256"),
        ("rgcn", "dst+separate-sums/b256", "src", "dst+separate-sums/b256"),
        ("hgt", "src+scores-hybrid+folded/b256", "dst", "src+scores-dst+folded/b256"),
        ("hgt", "hybrid+scores-src+folded/b1024", "src", "src+scores-src+folded/b1024"),
    ],
)
def test_hybrid_plans_stand_for_the_plan_of_the_side(layer, variant, side, runs):
    assert ids(layer, side)[variant] == runs


def test_a_hybrid_plan_runs_itself_where_there_is_no_plan_of_the_side():
    variants = tuple(
        v for v in variants_of(PROGRAMS["rgcn"], "cpu") if v.choices.plan.program.is_hybrid
    )
    assert run_on(variants, "dst") == variants


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("side", ONE_SIDED)
@pytest.mark.parametrize("layer", PROGRAMS)
def test_what_runs_instead_does_the_same_work(layer, side, device):
    """Products as many and as large; edges no more often walked, and no more written.

    GPUs walk edges of a group in other forms, with a little more arithmetic in some.
    """
    graph = typed_graph((5, 200), ONE_SIDED[side])
    domain = Domain(graph)
    assert domain.side == side
    variants = variants_of(PROGRAMS[layer], device)
    table = CandidateTable.of(variants)
    columns = table.columns(domain)
    replaced = 0
    for asked, runs in zip(variants, run_on(variants, side), strict=True):
        if asked is runs:
            continue
        replaced += 1
        before, after = (
            columns[list(table.rows_on(domain)[variants.index(v)])].sum(0) for v in (asked, runs)
        )
        for name in ("matrix_flops", "gemm_rows"):
            assert after[COLUMNS.index(name)] == pytest.approx(before[COLUMNS.index(name)]), runs.id
        no_more = ["edge_visits", "special", "write_bytes"]
        for name in [*no_more, "vector_flops"] if device == "cpu" else no_more:
            assert after[COLUMNS.index(name)] <= before[COLUMNS.index(name)], runs.id
    assert replaced > len(variants) / 8


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("layer", PROGRAMS)
def test_on_both_sides_everything_runs_itself(layer, device):
    variants = variants_of(PROGRAMS[layer], device)
    assert run_on(variants, "") == variants


def test_a_table_has_what_runs_once_and_knows_where():
    variants = variants_of(PROGRAMS["rgat"], "cpu")
    table = CandidateTable.of(variants, "dst")
    assert len(set(table.variants)) == len(table.variants) < len(variants)
    runs = run_on(variants, "dst")
    assert {table.variants[table.place_of[v.id]] for v in variants} == set(runs)
    for asked, found in zip(variants, runs, strict=True):
        assert table.variants[table.place_of[asked.id]] is found
    hybrid = [v for v in table.variants if v.choices.plan.program.is_hybrid]
    assert all(v.choices.plan.form is LoweringForm.SEPARATE_PRODUCTS for v in hybrid)
    graph = typed_graph((5, 200), ONE_SIDED["dst"])
    assert len(table.columns(Domain(graph))) == len(table.launches)


@pytest.mark.parametrize("side", ["", *ONE_SIDED])
@pytest.mark.parametrize("layer", PROGRAMS)
def test_the_default_variant_of_a_table_is_one_that_runs(layer, side):
    """Also where the default schedule is missing, and a hybrid plan in another one is it."""
    variants = tuple(
        v
        for v in variants_of(PROGRAMS[layer], "cuda")
        if v.choices.schedule != DEFAULT_SCHEDULES["cuda"]
    )
    hybrid = default_variant(variants, side)
    assert hybrid.id.startswith("hybrid")
    table = CandidateTable.of(variants, side)
    found = table.variants[table.default]
    assert found is run_on(variants, side)[variants.index(hybrid)]
    assert found.id.startswith(side or "hybrid")
