"""What a traced layer computes of edges alone is replayed for a new graph, or traced anew."""

from __future__ import annotations

import pytest
import torch
from tests.frontend.message_passing_cases import WIDTH, pyg

from hetune.variants.frontend import traced_call
from hetune.variants.frontend.tracing.edge_recipes import EdgeRecipe
from hetune.variants.frontend.tracing.recording import Recording, Recordings
from hetune.variants.frontend.tracing.tape import Tape
from hetune.variants.graph import index_native
from hetune.variants.runtime.compile_layer import compile_layer
from hetune.variants.runtime.fallback import FallbackWarning

utils = pytest.importorskip("torch_geometric.utils")
gcn_norm = pytest.importorskip("torch_geometric.nn.conv.gcn_conv").gcn_norm


class Deciding(pyg.MessagePassing):
    """Decides by what its edges say."""

    def __init__(self, by):
        super().__init__(aggr="add", node_dim=0)
        self.by = by

    def forward(self, x, edge_index):
        nodes, edges = x.size(0), edge_index.shape[1]
        degree = utils.degree(edge_index[1], nodes)
        scale = degree.new_ones(1)
        match self.by:
            case "nodes":
                scale = scale * (2 if nodes > 300 else 3)
            case "computed":
                scale = scale * (2 if 3 * nodes - edges // 2 < 100 else 3)
            case "smallest":
                scale = scale * min(nodes, 300)
            case "plain":
                scale = scale * (2 if int(nodes) > 300 else 3)
            case "ratio":
                scale = scale * (2 if edges / nodes > 5 else 3)
            case "quotient":
                scale = scale * (2 if divmod(edges, 1000)[0] else 3)
            case "value":
                scale = scale * (2 if degree.max() > 40 else 3)
            case "number":
                scale = scale * int(edge_index.max())
            case "content":
                scale = degree[:1].clamp(max=1.0)
            case "python":
                scale = scale * len(range(nodes))
            case "written":
                first, second = torch.zeros(nodes), torch.zeros(nodes)
                first.view(-1)[edge_index[0]] = 1.0
                scale = ((first > 0) & (second == 0)).float().view(-1, 1)[:, 0]
            case "rows":
                edge_index = edge_index[:, degree[edge_index[1]] > 2]
        return self.propagate(edge_index, x=x, factor=degree * scale)

    def message(self, x_j, factor_j):
        return x_j * factor_j.view(-1, 1)


def graph(nodes, edges, seed):
    random = torch.Generator().manual_seed(seed)
    return torch.randn(nodes, WIDTH, generator=random), torch.randint(
        0, nodes, (2, edges), generator=random
    )


SIZES = ((90, 300), (70, 410), (80, 250), (400, 1300), (85, 2), (350, 9000), (60, 310), (310, 990))


@pytest.fixture
def traces(monkeypatch):
    found, trace = [], traced_call.trace
    monkeypatch.setattr(traced_call, "trace", lambda *args: found.append(1) or trace(*args))
    return found


@torch.no_grad()
@pytest.mark.parametrize(
    ("by", "most"),
    [
        ("nodes", 4),
        ("computed", 4),
        ("smallest", 4),
        ("plain", 8),
        ("ratio", 8),
        ("quotient", 8),
        ("value", 4),
        ("number", 8),
        ("content", 4),
        ("python", 8),
        ("written", 0),
        ("rows", 1),
    ],
)
def test_answers_are_the_layers_own_whatever_it_decides_by(traces, by, most):
    layer = Deciding(by)
    compiled = compile_layer(layer, backend="torch")
    for seed, (nodes, edges) in enumerate(SIZES):
        x, edge_index = graph(nodes, edges, seed)
        expected = layer(x, edge_index)
        atol = 1e-5 * float(expected.abs().max())
        torch.testing.assert_close(compiled(x, edge_index), expected, rtol=1e-5, atol=atol)
    assert compiled.variants
    assert len(traces) <= most


@torch.no_grad()
def test_a_graph_that_a_recording_does_not_fit_is_traced_and_refused_as_a_first_one_is(traces):
    layer = pyg.GCNConv(WIDTH, 4)
    compiled = compile_layer(layer, backend="torch")
    for seed, (nodes, edges) in enumerate(SIZES):
        x, edge_index = graph(nodes, edges, seed)
        torch.testing.assert_close(compiled(x, edge_index), layer(x, edge_index))
    assert not traces
    one = torch.randn(1, WIDTH), torch.zeros(2, 1, dtype=torch.int64)
    with pytest.warns(FallbackWarning, match="depends on the graph"):
        torch.testing.assert_close(compiled(*one), layer(*one))
    assert len(traces) == 1
    wrong = torch.tensor([[0, 5], [1, 99]])
    with pytest.warns(FallbackWarning, match="99"), pytest.raises(RuntimeError, match="99"):
        compiled(torch.randn(9, WIDTH), wrong)


@torch.no_grad()
def test_graphs_that_no_recording_is_for_add_one_at_most(monkeypatch):
    made, init = [], Recordings.__init__
    monkeypatch.setattr(Recordings, "__init__", lambda *args: made.append(args[0]) or init(*args))
    layer = pyg.GraphConv(WIDTH, 4)
    compiled = compile_layer(layer, backend="torch")
    for nodes in range(40, 46):
        x, edge_index = graph(nodes, 1, nodes)  # torch may broadcast the row of a single edge
        torch.testing.assert_close(compiled(x, edge_index), layer(x, edge_index))
    assert compiled.status().reason is None
    assert [len(recordings._confirmed) for recordings in made] == [1]


def test_views_of_the_same_elements_are_recorded_once():
    def recorded(nodes, loops):
        edges = graph(nodes, 3 * nodes, nodes)[1]
        edges[1] = torch.where(edges[0] == edges[1], (edges[1] + 1) % nodes, edges[1])
        edges[1, :loops] = edges[0, :loops]
        tape = Tape({"edge_index": edges}, nodes, edges.shape[1])
        with tape:
            first, again = edges[0], edges[-2].view(-1, 1).expand(edges.size(1), 4)[:, 2]
            loops = edges[:, edges[0] == edges[1]].size(1)
            outs = {
                "first": first,
                "again": again,
                "by_loop": torch.ones(1, 3).expand(loops, 3),
                "written": torch.zeros(tape.rows[0]).index_add_(
                    0, again, torch.ones(edges.size(1))
                ),
            }
        return tape.recording(outs), outs, edges

    one, _, _ = recorded(40, 1)
    other, _, _ = recorded(50, 1)
    assert one.key == other.key
    _, expected, edges = recorded(60, 5)
    found = one.run(60, None, {"edge_index": edges})
    assert all(torch.equal(found[name], rows) for name, rows in expected.items())
    assert found["first"] is found["again"]


RECIPES = {
    "GCNConv": (True, "symmetric"),
    "TAGConv": (False, "symmetric"),
    "SAGEConv": (False, "mean"),
    "GATConv": (True, ""),
    "GraphConv": (False, ""),
}


@torch.no_grad()
@pytest.mark.parametrize("kind", RECIPES)
def test_what_is_made_of_edges_is_one_native_call_with_torchs_bits(kind, monkeypatch):
    found = []
    run = EdgeRecipe.run

    def ran(self, num_nodes, values):
        outputs = run(self, num_nodes, values)
        if outputs is not None:  # native code is not loaded for the first one
            found.append((self.loops, self.scale, num_nodes, values, outputs))
        return outputs

    monkeypatch.setattr(EdgeRecipe, "run", ran)
    stepwise, taken = Recording._stepwise, []

    def counted(self, *given):
        taken.append(self)
        return stepwise(self, *given)

    monkeypatch.setattr(Recording, "_stepwise", counted)
    layer = compile_layer(getattr(pyg, kind)(WIDTH, 5))
    for at, (nodes, edges) in enumerate(SIZES):
        x, edge_index = graph(nodes, edges, at)
        layer(x, edge_index)
    assert {each[:2] for each in found} == {RECIPES[kind]}
    recording = taken[-1]  # the first run as calls are compares
    for _, _, nodes, values, outputs in found[1 - len(SIZES) :]:
        rows = stepwise(recording, nodes, None, values)
        assert all(torch.equal(outputs[name].to(own.dtype), own) for name, own in rows.items())


@torch.no_grad()
def test_a_recipe_that_gives_something_else_is_left_out(monkeypatch):
    native, layer = index_native.scaled_edges, compile_layer(pyg.GCNConv(WIDTH, 5))
    scaled = []

    def wrong(*given):
        src, dst, numbers = native(*given)
        scaled.append(numbers)
        return src, dst, numbers * 1.001

    monkeypatch.setattr(index_native, "scaled_edges", wrong)
    for at, (nodes, edges) in enumerate(SIZES):
        x, edge_index = graph(nodes, edges, at)
        expected = layer.module(x, edge_index)
        assert torch.allclose(layer(x, edge_index), expected, atol=1e-5)
    assert len(scaled) == 1


class WithoutLoops(pyg.MessagePassing):
    """Writes to numbers that were made of the edges alone."""

    def forward(self, x, edge_index):
        edge_index, weight = gcn_norm(edge_index, None, x.size(0), False, False, dtype=x.dtype)
        weight[edge_index[0] == edge_index[1]] = 0
        return self.propagate(edge_index, x=x, edge_weight=weight)

    def message(self, x_j, edge_weight):
        return edge_weight.view(-1, 1) * x_j


@torch.no_grad()
def test_what_is_written_to_afterwards_is_no_recipe():
    layer = compile_layer(WithoutLoops())
    for at, (nodes, edges) in enumerate(SIZES):
        x, edge_index = graph(nodes, edges, at)
        if at < len(SIZES) - 1:  # all of them look as if nothing was written
            edge_index = edge_index[:, edge_index[0] != edge_index[1]]
        expected = layer.module(x, edge_index)
        assert torch.allclose(layer(x, edge_index), expected, atol=1e-5)


def test_recipes_are_for_edges_on_a_cpu_whose_routines_are_there(monkeypatch):
    recipe, edges = EdgeRecipe(True, "symmetric", "e", "c"), torch.tensor([[0, 1], [1, 0]])
    assert index_native.scaled_edges(edges, 2, True, "mean") is not None  # loads them
    assert recipe.run(2, {"e": edges}) is not None
    assert recipe.run(2, {"e": edges.to("meta")}) is None
    monkeypatch.setattr(index_native, "is_loaded", lambda: False)
    assert recipe.run(2, {"e": edges}) is None
