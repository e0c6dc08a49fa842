"""Sites are decided each for itself: hops of one program may differ."""

from __future__ import annotations

import logging
from itertools import product
from textwrap import dedent

import pytest

from hetune.variants.backends.cpp.backend import CppBackend
from hetune.variants.frontend.functions import relu
from hetune.variants.frontend.trace import Graph, Value, etype, layer_program, node, shared
from hetune.variants.passes.choices import Placement, SumChoices
from hetune.variants.passes.pipeline import clean, run_passes
from hetune.variants.passes.sites import AtSite, only, sites_of
from hetune.variants.plan import alternatives as module
from hetune.variants.plan.alternatives import MOST, alternatives
from hetune.variants.plan.sides import default_variant, run_on
from hetune.variants.plan.variants import variants_of
from hetune.variants.program.interpret import interpret
from hetune.variants.program.nodes import Program
from hetune.variants.program.text import parse
from hetune.variants.testing.conformance import TOLERANCE, relative_error
from hetune.variants.testing.graphs import AWKWARD
from hetune.variants.testing.plans import run_plan
from hetune.variants.testing.programs import PROGRAMS, random_parameters

from .conftest import GRAPH, GROUPS, assert_same_result

WAYS = (Placement.SRC, Placement.DST, Placement.HYBRID)


@layer_program
def rgcn_hops(
    g: Graph, x: Value, root: Value, w0: Value, w1: Value, w2: Value | None, w3: Value | None
) -> Value:
    """RGCN with a mean and a root weight, as often as there are weights, with a relu between."""
    x = g.mean(g.src(x) @ w0) + x @ root
    for w in (w1, w2, w3):
        if w is not None:
            x = relu(x)
            x = g.mean(g.src(x) @ w) + x @ root
    return x


def hops(count: int) -> Program:
    weights = {f"w{n}": etype(4, 4) if n < count else None for n in range(4)}
    return rgcn_hops(x=node(4), root=shared(4, 4), **weights)


def places(choices) -> tuple[Placement, ...]:
    return tuple(site.choices.messages for site in choices.sites)


def test_two_hops_are_decided_apart():
    program = hops(2)
    found = {places(way.choices): way for way in alternatives(program)}
    assert list(found) == [(), *product(WAYS, WAYS)]
    assert found[Placement.SRC, Placement.HYBRID].id == "sum1-src+sum2-hybrid"
    for way in found.values():
        assert_same_result(program, way.program, GRAPH, GROUPS)


@pytest.mark.parametrize("graph", ["several blocks", "hub", "no edges"])
def test_variants_whose_hops_differ_are_right(graph):
    program, graph = hops(2), AWKWARD[graph]()
    values = random_parameters(program, graph)
    expected = interpret(program, values, graph)
    for variant in variants_of(program, "cpu"):
        if not variant.has_default_schedule:
            continue
        found = run_plan(variant.plan, values, graph, CppBackend(), variant.schedules)
        assert relative_error(found, expected) <= TOLERANCE, variant.id


def test_three_hops_stay_within_the_cap():
    assert len(alternatives(hops(3))) == 1 + 3**3 <= 1 + MOST


def test_what_is_left_out_is_said(caplog):
    with caplog.at_level(logging.INFO, module.__name__):
        found = [places(way.choices) for way in alternatives(hops(4))]
    assert len(found) == 1 + MOST < 3**4
    assert f"{3**4 - MOST} of {3**4} combinations of what is decided at 4 sites" in caplog.text
    for place in WAYS:
        assert (place,) * 4 in found
    assert found[-1] == (Placement.HYBRID,) * 4
    assert sum(each.count(Placement.HYBRID) >= 3 for each in found) == 1 + 4 * 2


def test_the_twin_on_one_side_is_decided_at_every_site():
    variants = variants_of(hops(2), "cpu")
    by_id = {variant.id: variant for variant in variants}
    runs = dict(zip(by_id, run_on(variants, "src"), strict=True))
    assert runs["sum1-dst+sum2-hybrid/b256"] is by_id["sum1-dst+sum2-src/b256"]
    assert runs["sum1-hybrid+sum2-hybrid/b256"] is by_id["sum1-src+sum2-src/b256"]
    assert default_variant(variants, "src").id == "sum1-src+sum2-src/b1024"
    assert default_variant(variants).id == "sum1-hybrid+sum2-hybrid+separate-sums/b1024"


def test_sums_that_share_a_product_are_one_site():
    assert len(sites_of(clean(PROGRAMS["biased messages"]))) == 1
    assert len(sites_of(clean(PROGRAMS["typed sums"]))) == 4
    assert sites_of(clean(PROGRAMS["linear"])) == ()


def test_a_site_alone_has_the_sums_of_others_given():
    program = clean(hops(2))
    first, second = sites_of(program)
    assert {param.name for param in only(program, second).params} == {
        *(param.name for param in program.params if param.name != "w0"),
        *first,
    }


def test_passes_at_a_sum_leave_others_as_they_are(check_rewrite):
    step = AtSite(("out",), SumChoices(Placement.SRC).passes)
    check_rewrite(
        step,
        """
        program p(x: node[4] feature, w: etype[4,4], v: etype[4,3])
          xs: edge[4] = take x edge src
          m: edge[4] = linear xs w
          h: node[4] = sum m node
          hs: edge[4] = take h edge src
          n: edge[3] = linear hs v
          out: node[3] = sum n node
          return out
        """,
        """
        program p(x: node[4] feature, w: etype[4,4], v: etype[4,3])
          xs: edge[4] = take x edge src
          m: edge[4] = linear xs w
          h: node[4] = sum m node
          h_src_pair: src_pair[4] = take h src_pair src
          n: src_pair[3] = linear h_src_pair v
          n_edge: edge[3] = take n edge
          out: node[3] = sum n_edge node
          return out
        """,
    )


def test_where_one_site_has_a_choice_ids_do_not_name_it():
    program = parse(
        dedent("""
        program p(x: node[4] feature, w: etype[4,4])
          xs: edge[4] = take x edge src
          h: node[4] = sum xs node
          hs: edge[4] = take h edge src
          m: edge[4] = linear hs w
          out: node[4] = sum m node
          return out
        """)
    )
    ways = alternatives(program)
    assert [way.id for way in ways] == ["vanilla", "src", "dst", "hybrid"]
    for way in ways:
        assert run_passes(way.choices.passes, clean(program)) == way.program
