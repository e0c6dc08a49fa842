"""Backward passes in stages: of all layers, on awkward graphs, against autograd in float64."""

from __future__ import annotations

import pytest
import torch

from hetune.variants.frontend.homogeneous import gcn, gin, sage
from hetune.variants.frontend.presets import preset_program
from hetune.variants.frontend.trace import constant, edge, etype, layer_program, node, shared
from hetune.variants.passes.backward import backward
from hetune.variants.program.nodes import End, Map, Reduce, Softmax, Space
from hetune.variants.program.text import parse, show
from hetune.variants.program.verify import verify
from hetune.variants.testing.gradients import (
    autograd_gradients,
    result_gradients,
    staged_gradients,
)
from hetune.variants.testing.graphs import AWKWARD
from hetune.variants.testing.programs import PROGRAMS, random_parameters
from hetune.variants.testing.unusual import RESULTS

HOMOGENEOUS = {
    "gcn": gcn(x=node(4), norm=constant(edge()), w=shared(4, 3), bias=shared(3)),
    "sage": sage(
        x=node(4), share=constant(node()), w=shared(4, 3), root=shared(4, 3), bias=shared(3)
    ),
    "gin": gin(
        x=node(4), eps=shared(), w=shared(4, 5), bias=shared(5), w_out=shared(5, 3),
        bias_out=shared(3),
    ),
}  # fmt: skip


@layer_program
def _by_root_of_counts(g, x, w):
    return g.sum(g.src(x) @ w * ((g.count(g.dst_pairs) + 1.0) ** -0.5).take(Space.EDGE))


OTHERS = {**HOMOGENEOUS, "counts": _by_root_of_counts(x=node(4), w=etype(4, 3))}
LAYERS = {**PROGRAMS, **OTHERS, **{f"results: {name}": p for name, p in RESULTS.items()}}
LARGE = ("hub of thousands of edges", "thousands of relations")
GRAPHS = ("duplicate edges", "relations without edges", "source hub", "one node", "no edges")
FEW = ("rgcn mean", "rgat, 2 heads", "hgt, 2 heads")


def cases():
    """Each layer on one graph by turns, a few on all."""
    for number, name in enumerate(LAYERS):
        graphs = AWKWARD if name in FEW else (GRAPHS[number % len(GRAPHS)],)
        yield from ((name, graph) for graph in graphs if graph not in LARGE)


@pytest.mark.parametrize(("name", "graph"), [*cases()])
def test_gradients_are_autograds(name, graph):
    program, graph = LAYERS[name], AWKWARD[graph]()
    values = random_parameters(program, graph)
    grads = result_gradients(program, values, graph, {})
    wanted = [param.name for param in program.params if param.role != "constant"]
    found = backward(program, wanted)
    want = autograd_gradients(program, values, grads, graph, {}, wanted)
    have = staged_gradients(found, {**values, **grads}, graph, {})
    torch.testing.assert_close(have, want, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", LAYERS)
def test_stages_are_ordinary_programs(name):
    """They sum at destinations alone, and return rows of nodes, edges or types."""
    program = LAYERS[name]
    for stage in backward(program, [param.name for param in program.params]).stages:
        verify(stage.program)
        assert parse(show(stage.program)) == stage.program
        for let in stage.program.lets:
            if isinstance(let.op, Reduce):
                assert let.op.space is not Space.SRC_PAIR
                assert let.op.end is not End.SRC
            assert not (stage.is_reversed and isinstance(let.op, Softmax))
        kinds = {stage.program.type_of(name).space for name in stage.program.results}
        assert kinds <= {Space.NODE, Space.EDGE, Space.ETYPE, Space.NTYPE, Space.SHARED}


@pytest.mark.parametrize(
    ("name", "wanted", "kinds"),
    [
        ("rgcn mean", "x w root bias", "GRW"),
        ("rgcn mean", "x root bias", "R"),
        ("rgcn mean", "w root bias", "GRW"),
        ("gcn", "x w bias", "R"),
        ("gin", "x w", "GR"),
        ("rgat, 2 heads", "x w att_q", "GRW"),
        ("hgt, 2 heads", "x w_k a_rel", "GRW"),
    ],
)
def test_how_many_stages(name, wanted, kinds):
    stages = backward(LAYERS[name], wanted.split()).stages
    found = ("R" if s.is_reversed else "W" if s.is_weights else "G" for s in stages)
    assert "".join(found) == kinds


@pytest.mark.parametrize("heads", [1, 2])
def test_a_view_of_rows_is_not_handed_on_beside_them(heads):
    program = preset_program("rgat", 8, 8, heads)
    first, *_ = backward(program, ["x", "w", "att_q"]).stages
    kinds = [first.program.type_of(name) for name in first.program.results]
    assert [kind.width for kind in kinds if kind.space is Space.EDGE] == [heads, heads]


def test_the_mean_of_heads_makes_no_rows_of_heads():
    """Its gradient is the same for all of them."""
    program = parse("""program gat(x: node[8] feature, s: edge[2] feature, w: shared[8,2,4])
  h: node[2,4] = linear x w
  share: edge[2] = softmax s node
  sent: edge[2,4] = take h edge src
  weighted: edge[2,4] = mul share sent
  sum: node[2,4] = sum weighted node
  out: node[4] = fold sum 0 mean
  return out
""")
    lets = [let for s in backward(program, ["x", "s", "w"]).stages for let in s.program.lets]
    assert not any(isinstance(let.op, Map) and let.op.fn == "pow_c" for let in lets)
    graph = AWKWARD["source hub"]()
    values = random_parameters(program, graph)
    grads = result_gradients(program, values, graph, {})
    want = autograd_gradients(program, values, grads, graph, {}, ["x", "s", "w"])
    have = staged_gradients(backward(program, ["x", "s", "w"]), {**values, **grads}, graph, {})
    torch.testing.assert_close(have, want, rtol=1e-10, atol=1e-10)
