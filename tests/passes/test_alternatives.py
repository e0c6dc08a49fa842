"""The ways through the choice points: all compute what the layer says, under stable names."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.full import FULL

from hetune.variants.frontend.functions import dot, softmax
from hetune.variants.frontend.kernels import (
    aggregate_program,
    attention_program,
    linear_program,
)
from hetune.variants.frontend.layers import hgt_program, rgat_program, rgcn_program
from hetune.variants.frontend.trace import etype, layer_program, node
from hetune.variants.passes.hybrid import DST_SIDE, SRC_SIDE
from hetune.variants.passes.pipeline import run_passes
from hetune.variants.plan.alternatives import alternatives, normalized
from hetune.variants.program.nodes import End
from hetune.variants.program.text import show
from hetune.variants.program.verify import verify
from hetune.variants.testing.programs import PROGRAMS
from hetune.variants.testing.strategies import graphs

from .conftest import assert_same_result


@layer_program
def reductions(g, x, w, u):
    """Messages reduced in every way that no kernel knows yet, beside sums that passes rewrite."""
    sent = g.src(x) @ w
    most = g.reduce(sent, fn="max") + g.reduce(sent, fn="min", end=End.SRC)
    received = g.reduce(g.dst(x) @ w, end=End.SRC) + g.reduce(g.reduce(sent, g.src_pairs))
    typed = g.reduce(sent, g.etypes, fn="max")
    alpha = softmax(dot(sent, typed), over=g.nodes)
    out = g.sum(alpha * sent) + g.mean(g.src(most) @ u) + received
    return out, alpha, typed, g.reduce(out, g.ntypes), g.reduce(out, g.whole, fn="max")


WITHOUT_KERNELS = {"reductions": reductions(x=node(5), w=etype(5, 4), u=etype(4, 4))}


@pytest.mark.parametrize("name", [*PROGRAMS, *WITHOUT_KERNELS])
def test_all_compute_the_same(name):
    program = (PROGRAMS | WITHOUT_KERNELS)[name]
    ways = alternatives(program)

    @settings(
        max_examples=12 if FULL else 6,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(graph=graphs(), data=st.data())
    def check(graph, data):
        is_source = data.draw(st.lists(st.booleans(), min_size=5, max_size=5))
        groups = {
            SRC_SIDE: tuple(r for r in range(graph.num_etypes) if is_source[r]),
            DST_SIDE: tuple(r for r in range(graph.num_etypes) if not is_source[r]),
        }
        for way in ways:
            assert_same_result(program, way.program, graph, groups)

    check()


@pytest.mark.parametrize("name", PROGRAMS)
def test_each_is_one_of_a_kind(name):
    ways = alternatives(PROGRAMS[name])
    assert ways[0].id == "vanilla"
    assert len({way.id for way in ways}) == len(ways)
    assert len({way.program for way in ways}) == len(ways)
    assert ways == alternatives(PROGRAMS[name])
    for way in ways:
        verify(way.program)
        assert run_passes(way.choices.passes, normalized(PROGRAMS[name])) == way.program


IDS = {
    "rgcn mean": ["vanilla", "src", "dst", "hybrid"],
    "rgat across": [
        "vanilla",
        "edge+weights-first",
        "src",
        "src+weights-first",
        "dst",
        "dst+weights-first",
        "dst+weights-first+edge-scores",
        "hybrid",
        "hybrid+weights-first",
    ],
    "edge weights": ["vanilla", "src", "dst", "hybrid"],
    "edge weights, shared map": ["vanilla", "src", "dst"],
    "linear": ["vanilla"],
    "aggregate": ["vanilla"],
    "attention, 2 heads": ["vanilla"],
}


@pytest.mark.parametrize("name", IDS)
def test_ids(name):
    assert [way.id for way in alternatives(PROGRAMS[name])] == IDS[name]


def test_hgt_chooses_messages_scores_and_folds_apart():
    ids = [way.id for way in alternatives(PROGRAMS["hgt, 2 heads"])]
    assert "hybrid+scores-hybrid" in ids
    assert "dst+scores-src" in ids
    assert "src+scores-src+fold-a_rel+fold-m_rel" in ids
    # A fold of heads makes products larger: it needs them at the source.
    assert not any("fold" in name and ("dst" in name or "hybrid" in name) for name in ids)


@pytest.mark.parametrize(("d_in", "d_out", "always"), [(6, 6, True), (4, 6, True), (6, 4, False)])
def test_without_heads_all_is_folded_unless_products_grow(d_in, d_out, always):
    ids = [way.id for way in alternatives(hgt_program(d_in, d_out))]
    folded = [name for name in ids if name.endswith("+folded")]
    assert folded == (ids[1:] if always else [])
    assert ("src+scores-src+fold-a_rel" in ids) is not always


GOLDEN = {
    "rgcn-mean.txt": rgcn_program(64, 64, "mean"),
    "rgat-across.txt": rgat_program(64, 64),
    "rgat-within-2-heads.txt": rgat_program(64, 32, 2, softmax="within"),
    "hgt.txt": hgt_program(64, 64),
    "hgt-2-heads.txt": hgt_program(64, 64, 2),
    "linear.txt": linear_program(64, 32),
    "aggregate.txt": aggregate_program(64),
    "attention-2-heads.txt": attention_program(64, 2),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_programs_are_as_reviewed(name, golden):
    ways = alternatives(GOLDEN[name])
    golden(name, "\n".join(f"# {way.id}\n{show(way.program)}" for way in ways))
