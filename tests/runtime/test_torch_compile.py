"""Compiled layers within models that torch compiles: operators in its graphs, or outside."""

from __future__ import annotations

import warnings

import pytest
import torch

import hetune
from hetune import nn as hetune_nn
from hetune.variants.graph.convert.edge_index_dict import to_edge_index_dict
from hetune.variants.runtime.compile_layer import compile_layer
from hetune.variants.runtime.executable import Executable
from hetune.variants.runtime.fallback import FallbackWarning
from hetune.variants.testing.conformance import TOLERANCE, relative_error
from hetune.variants.testing.layers import randomized

geometric = pytest.importorskip("torch_geometric.nn")
pytestmark = pytest.mark.usefixtures("no_grad", "fresh_compiler")


@pytest.fixture
def fresh_compiler():
    torch.compiler.reset()
    yield
    torch.compiler.reset()


class Net(torch.nn.Module):
    """Two layers, with operators around them for torch to compile."""

    def __init__(self):
        super().__init__()
        self.first = randomized(geometric.RGCNConv(8, 8, 3))
        self.second = randomized(geometric.RGATConv(8, 8, 3)).eval()

    def forward(self, x, edge_index, edge_type):
        x = self.first(2 * x, edge_index, edge_type).relu()
        return self.second(x, edge_index, edge_type).softmax(-1)


@pytest.fixture
def net():
    return Net().eval()


@pytest.fixture
def runs(monkeypatch):
    """Which executables ran."""
    ran, run = [], Executable.run

    def noted(executable, *args, **kwargs):
        ran.append(executable)
        return run(executable, *args, **kwargs)

    monkeypatch.setattr(Executable, "run", noted)
    return ran


def graphs_of(seen):
    """A backend of torch's that runs graphs as they are, and notes them."""

    def backend(module, inputs):
        seen.append(module)
        return module.forward

    return backend


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_layers_are_operators_of_one_graph(backend, net, x, edges, runs):
    fast = hetune.compile(net, backend="torch", expected_runs=1)
    seen = []
    compiled = torch.compile(
        fast, backend=graphs_of(seen) if backend == "eager" else backend, fullgraph=True
    )
    fewer = edges[0][:, :90], edges[1][:90]
    for count, call in enumerate([(x, *edges), (x, *edges), (torch.cat((x, x)), *fewer)], 1):
        assert relative_error(compiled(*call), net(*call).double()) <= TOLERANCE
        assert len(runs) == 2 * count
    for each in seen:
        assert str(each.graph).count("torch.ops.hetune.layer") == 2


def test_layers_in_their_places_and_parameters_that_change(net, x, edges, runs):
    net.first = compile_layer(net.first, backend="torch", expected_runs=1)
    compiled = torch.compile(net, backend="eager", fullgraph=True)
    for _ in range(2):
        plain = net.second(net.first.module(2 * x, *edges).relu(), *edges).softmax(-1)
        assert relative_error(compiled(x, *edges), plain.double()) <= TOLERANCE
        net.first.weight.mul_(0.5)
    assert len(runs) == 2


def test_graphs_of_layers_with_other_results_have_other_texts(x, edges):
    """Torch keeps compiled graphs on disk by their texts, where numbers of layers come again."""
    texts = set()
    for width in (4, 8):
        fast, seen = compile_layer(geometric.RGCNConv(8, width, 3), backend="torch"), []
        torch.compile(fast, backend=graphs_of(seen))(x, *edges)
        (graph,) = seen
        texts.add(graph.code.replace(f"layer({fast._graph_calls.number},", "layer("))
    assert len(texts) == 2


def test_dictionaries(x, graph, runs):
    layer = randomized(geometric.HGTConv(8, 8, graph.metadata())).eval()
    rows = x.split(torch.bincount(graph.ntype).tolist())
    x_dict = dict(zip(graph.ntype_names, rows, strict=True))
    edge_index_dict = to_edge_index_dict(graph)
    fast = compile_layer(layer, backend="torch", expected_runs=1)
    compiled = torch.compile(fast, backend="aot_eager", fullgraph=True)
    found, expected = (each(x_dict, edge_index_dict) for each in (compiled, layer))
    assert list(found) == list(expected)
    for name in expected:
        assert relative_error(found[name], expected[name].double()) <= TOLERANCE
    assert len(runs) == 1


def test_traced_layers_after_a_first_call(x, edges, runs):
    net = randomized(geometric.GAT(8, 8, 2, heads=2)).eval()
    fast = hetune.compile(net, backend="torch", expected_runs=1)
    expected = fast(x, edges[0])
    weights = torch.rand(edges[0].shape[1])
    compiled = torch.compile(fast, backend="aot_eager", fullgraph=True)
    assert relative_error(compiled(x, edges[0]), net(x, edges[0]).double()) <= TOLERANCE
    assert relative_error(expected, net(x, edges[0]).double()) <= TOLERANCE
    assert len(runs) == 4
    gcn = randomized(geometric.GCN(8, 8, 2)).eval()
    fast = hetune.compile(gcn, backend="torch", expected_runs=1)
    fast(x, edges[0], edge_weight=weights)  # None is given for others
    compiled = torch.compile(fast, backend="eager", fullgraph=True)
    found = compiled(x, edges[0], edge_weight=2 * weights)
    assert relative_error(found, gcn(x, edges[0], edge_weight=2 * weights).double()) <= TOLERANCE


def test_a_traced_layer_alone(x, edges, runs):
    gcn = randomized(geometric.GCNConv(8, 8)).eval()
    fast = compile_layer(gcn, backend="torch", expected_runs=1)
    fast(x, edges[0])
    compiled = torch.compile(fast, backend="eager", fullgraph=True)
    assert relative_error(compiled(x, edges[0]), gcn(x, edges[0]).double()) <= TOLERANCE
    assert len(runs) == 2


def test_calls_whose_shape_nobody_knows_break_the_graph(net, x, edges, runs, graph):
    layer = compile_layer(net.first, backend="torch")
    expected = net.first(x, *edges).double()
    for compiled in (
        torch.compile(layer, backend="eager"),
        torch.compile(lambda *args: layer(*args), backend="eager"),
    ):
        for arguments in ((x, *edges), (x, graph)):
            assert relative_error(compiled(*arguments), expected) <= TOLERANCE
    assert len(runs) == 4
    torch.compiler.reset()
    with pytest.raises(torch._dynamo.exc.Unsupported, match="this call stays outside"):
        torch.compile(layer, backend="eager", fullgraph=True)(x, graph)


def test_what_is_not_supported_runs_in_the_module_within_the_operator(net, x, edges):
    net.first = compile_layer(net.first, backend="torch", expected_runs=1)
    compiled = torch.compile(net.first, backend="eager", fullgraph=True)
    compiled(x, *edges)
    net.first.module.register_forward_hook(lambda module, args, result: result + 1)
    with pytest.warns(FallbackWarning, match="hooks are registered"):
        found = compiled(x, *edges)
    assert torch.equal(found, net.first.module(x, *edges))


def test_an_export_holds_the_modules_own_operators(net, x, edges):
    fast = compile_layer(net.second, backend="torch")
    for strict in (False, True):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            exported = torch.export.export(fast, (x, *edges), strict=strict)
        texts = [str(w.message) for w in caught if w.category is FallbackWarning]
        assert strict or "a dispatch mode, as of torch.export, is at work" in texts[0]
        assert "hetune" not in str(exported.graph)
        found = exported.module()(x, *edges)
        assert relative_error(found, net.second(x, *edges).double()) <= TOLERANCE


def test_gradients_are_the_modules(net, x, edges):
    net.first = compile_layer(net.first, backend="torch")
    compiled = torch.compile(net.first, backend="eager")
    with torch.enable_grad():
        compiled(x, *edges).sum().backward()
    assert net.first.module.weight.grad.any()
    assert net.first.status().has_gradients


def test_transforms_are_the_modules(x, graph):
    layer = compile_layer(hetune_nn.RGCN(8, 8, 3).requires_grad_(False), backend="torch")
    twice = torch.stack((x, 2 * x))
    expected = torch.stack([layer(each, graph) for each in twice])
    with pytest.warns(FallbackWarning, match=r"a transform of torch\.func is at work"):
        found = torch.compile(torch.vmap(lambda rows: layer(rows, graph)), backend="eager")(twice)
    assert relative_error(found, expected.double()) <= TOLERANCE


def test_a_batch_runs_call_by_call(net, x, edges, runs):
    layer = compile_layer(net.first, backend="torch", expected_runs=1)
    batch = torch.vmap(lambda rows: layer(rows, *edges))
    twice = torch.stack((x, 2 * x))
    found = torch.compile(batch, backend="eager", fullgraph=True)(twice)
    expected = torch.stack([net.first(each, *edges) for each in twice])
    assert relative_error(found, expected.double()) <= TOLERANCE
    assert len(runs) == 2
