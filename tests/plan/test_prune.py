"""Plans that another one beats on every graph."""

from __future__ import annotations

import pytest

from hetune.variants.frontend.layers import rgat_program, rgcn_program
from hetune.variants.kernel.nodes import Direct, Gemm, Launch, Rows
from hetune.variants.plan.alternatives import alternatives
from hetune.variants.plan.lower import lower
from hetune.variants.plan.nodes import Plan
from hetune.variants.plan.prune import Cost, costs_of, undominated
from hetune.variants.plan.variants import BLOCK_NODES, variants_of
from hetune.variants.program.nodes import Program, Space
from hetune.variants.program.text import parse
from hetune.variants.testing.programs import PROGRAMS

FITS = [
    # On every graph there are at most as many pairs as edges, of a group as of all edges.
    (Cost(True, Rows(Space.SRC_PAIR), 16), Cost(True, Rows(Space.EDGE), 16), True),
    (Cost(True, Rows(Space.DST_PAIR), 16), Cost(True, Rows(Space.EDGE), 16), True),
    (Cost(True, Rows(Space.SRC_PAIR, "s"), 16), Cost(True, Rows(Space.SRC_PAIR), 16), True),
    (Cost(True, Rows(Space.NODE), 16), Cost(True, Rows(Space.NODE), 16), True),
    # Which side has fewer, and whether nodes outnumber edges, is up to the graph.
    (Cost(True, Rows(Space.SRC_PAIR), 16), Cost(True, Rows(Space.DST_PAIR), 16), False),
    (Cost(True, Rows(Space.DST_PAIR), 16), Cost(True, Rows(Space.SRC_PAIR), 16), False),
    (Cost(True, Rows(Space.NODE), 16), Cost(True, Rows(Space.EDGE), 16), False),
    (Cost(True, Rows(Space.SRC_PAIR), 16), Cost(True, Rows(Space.SRC_PAIR, "s"), 16), False),
    (Cost(True, Rows(Space.SRC_PAIR, "d"), 16), Cost(True, Rows(Space.SRC_PAIR, "s"), 16), False),
    # A dot product is never dearer than a matrix product of as many operations; more is more.
    (Cost(False, Rows(Space.EDGE), 16), Cost(True, Rows(Space.EDGE), 16), True),
    (Cost(True, Rows(Space.EDGE), 16), Cost(False, Rows(Space.EDGE), 16), False),
    (Cost(True, Rows(Space.EDGE), 17), Cost(True, Rows(Space.EDGE), 16), False),
    # Dot products of source pairs are one more walk; the rows of edges are read anyway.
    (Cost(False, Rows(Space.SRC_PAIR), 16), Cost(False, Rows(Space.EDGE), 16), False),
    (Cost(False, Rows(Space.SRC_PAIR), 16), Cost(True, Rows(Space.EDGE), 16), True),
    (Cost(False, Rows(Space.DST_PAIR), 16), Cost(False, Rows(Space.EDGE), 16), True),
]


@pytest.mark.parametrize(("small", "large", "fits"), FITS)
def test_what_fits_into_what(small, large, fits):
    assert small.fits_in(large) is fits


def test_costs_of_a_plan():
    program = parse(
        """
        program p(x: node[2,4] feature, w: etype[2,4,3], a: etype[2,4])
          xs: edge[2,4] = take x edge src
          s: edge[2] = dot xs a
          e: edge[2] = softmax s node
          x_pair: src_pair[2,4] = take x src_pair src
          h: src_pair[2,3] = linear x_pair w
          hs: edge[2,3] = take h edge
          m: edge[2,3] = mul e hs
          out: node[2,3] = sum m node
          return out
        """
    )
    assert sorted(costs_of(lower(program)), key=lambda cost: cost.is_matrix) == [
        Cost(False, Rows(Space.EDGE), 8),
        Cost(True, Rows(Space.SRC_PAIR), 24),
    ]


def plan_of(*rows: Rows) -> Plan:
    """Products of the same size over these rows."""
    products = (Gemm("y", Direct("x"), "w", each, 1, 4, 4) for each in rows)
    launches = tuple(Launch((product,), ()) for product in products)
    return Plan(Program("p", (), (), ("y",)), (), (), launches, (), ("y",))


def test_plans_that_cost_the_same_are_both_kept():
    whole, source, target = (
        Rows(Space.SRC_PAIR),
        Rows(Space.SRC_PAIR, "s"),
        Rows(Space.DST_PAIR, "d"),
    )
    same = {"a": plan_of(source, target, whole), "b": plan_of(whole, source, target)}
    assert list(undominated(same)) == ["a", "b"]
    assert list(undominated({**same, "c": plan_of(source, target)})) == ["c"]


def kept(program: Program) -> list[str]:
    plans = {way.id: lower(way.program) for way in alternatives(program)}
    return list(undominated(plans, kept=("vanilla",)))


KEPT = {
    rgcn_program(6, 4): ["vanilla", "src", "dst", "hybrid"],
    # A weight for each edge type leaves nothing to gain from scoring transformed rows.
    rgat_program(6, 6): [
        "vanilla",
        "src+weights-first",
        "dst+weights-first",
        "dst+weights-first+edge-scores",
        "hybrid+weights-first",
    ],
    # Narrow results: a dot product of transformed rows is shorter than one of rows.
    rgat_program(6, 4): [
        "vanilla",
        "src",
        "src+weights-first",
        "dst+weights-first",
        "dst+weights-first+edge-scores",
        "hybrid+weights-first",
    ],
    PROGRAMS["edge weights, shared map"]: ["vanilla", "src", "dst"],
}


@pytest.mark.parametrize(("program", "ids"), KEPT.items())
def test_kept(program, ids):
    assert kept(program) == ids


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_dropped_has_a_cheaper_version(name):
    plans = {way.id: lower(way.program) for way in alternatives(PROGRAMS[name])}
    left = undominated(plans, kept=("vanilla",))
    assert "vanilla" in left
    assert set(left) <= set(plans)
    assert undominated(left, kept=("vanilla",)) == left


@pytest.mark.parametrize("name", PROGRAMS)
def test_variants_have_stable_ids_and_keys(name):
    variants = variants_of(PROGRAMS[name], "cpu")
    assert len({v.id for v in variants}) == len({v.key for v in variants}) == len(variants)
    for variant in variants:
        assert variant.id == f"{variant.plan_id}/b{variant.choices.schedule.block_nodes}"
        assert variant.choices.schedule.block_nodes in BLOCK_NODES
        assert len(variant.schedules) == len(variant.plan.launches)
        assert set(variant.schedules) == {variant.choices.schedule}
    variants_of.cache_clear()
    assert [(v.id, v.key) for v in variants_of(PROGRAMS[name], "cpu")] == [
        (v.id, v.key) for v in variants
    ]
