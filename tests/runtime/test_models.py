"""Whole models: their layers run compiled, and the model stays as it is."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch.nn.utils import parametrize

import hetune
from hetune import nn
from hetune.variants.errors import InputError, MemoryLimitError
from hetune.variants.frontend.traced_graphs import _kept
from hetune.variants.graph.convert.edge_index_dict import to_edge_index_dict
from hetune.variants.runtime.fallback import FallbackWarning
from hetune.variants.testing.conformance import TOLERANCE, relative_error
from hetune.variants.testing.layers import randomized

geometric = pytest.importorskip("torch_geometric.nn")
pytestmark = pytest.mark.usefixtures("no_grad")


class Block(torch.nn.Module):
    """A layer called by keywords, a parameter, a buffer and a norm that has statistics."""

    def __init__(self, layer):
        super().__init__()
        self.layer, self.norm = layer, torch.nn.BatchNorm1d(8)
        self.scale = torch.nn.Parameter(torch.full((8,), 0.5))
        self.register_buffer("shift", torch.ones(8))

    def forward(self, x, edge_index, edge_type):
        x = self.layer(x, edge_index=edge_index, edge_type=edge_type)
        return self.norm(x) * self.scale + self.shift


class Net(torch.nn.Module):
    """Layers in a list and a dictionary of parts; one is in two places and called in a loop."""

    def __init__(self):
        super().__init__()
        shared = geometric.RGCNConv(8, 8, 3)
        self.lin = torch.nn.Linear(8, 8)
        self.layers = torch.nn.ModuleList([Block(shared), Block(geometric.RGATConv(8, 8, 3))])
        self.heads = torch.nn.ModuleDict({"a": geometric.FastRGCNConv(8, 8, 3), "b": shared})
        self.slope = 0.5

    def encode(self, x, *edges):
        for layer in (*self.layers, self.layers[0]):
            x = torch.nn.functional.leaky_relu(layer(self.lin(x), *edges), self.slope)
        return x

    def forward(self, x, *edges):
        x = torch.nn.functional.dropout(self.encode(x, *edges), 0.5, self.training)
        return self.heads["a"](x, *edges) - self.heads["b"](x, *edges)


@pytest.fixture
def net():
    return randomized(Net()).eval()


def compiled(model, **options):
    return hetune.compile(model, backend="torch", expected_runs=1, **options)


def assert_equal(found, expected):
    if isinstance(expected, dict):
        assert list(found) == list(expected)
        for name in expected:
            assert_equal(found[name], expected[name])
    else:
        assert relative_error(found, expected.double()) <= TOLERANCE


def ran(model):
    """The variants that the last calls of a model's layers ran, by the layers' names."""
    layers = (layer for layer in model.report().layers if layer.otherwise == "original")
    return {layer.name: layer.variant for layer in layers}


# Each kind of model.


def by_type(x, graph):
    rows = x.split(torch.bincount(graph.ntype).tolist())
    return dict(zip(graph.ntype_names, rows, strict=True)), to_edge_index_dict(graph)


def sequential(graph):
    return geometric.Sequential(
        "x, index, types",
        [
            (geometric.RGCNConv(8, 8, 3), "x, index, types -> y"),
            torch.nn.ReLU(),
            (geometric.RGATConv(8, 8, 3), "y, index, types -> z"),
            (lambda y, z: y + z, "y, z -> z"),
        ],
    )


class Typed(torch.nn.Module):
    def __init__(self, graph):
        super().__init__()
        self.convs = torch.nn.ModuleList(
            geometric.HGTConv(8, 8, graph.metadata(), heads=2) for _ in range(2)
        )

    def forward(self, x, edges):
        for conv in self.convs:
            x = {name: rows.relu() for name, rows in conv(x, edges).items()}
        return x


def hetero_conv(graph):
    loops = {("a", name, "a"): geometric.RGCNConv(8, 8, 3) for name in ("r", "s")}
    return geometric.HeteroConv(loops, aggr="sum")


def basic(kind, **options):
    return (
        lambda graph: getattr(geometric, kind)(8, 8, 2, **options),
        lambda x, edges, graph: ((x, edges[0]), {}),
        2,
    )


MODELS = {
    "gcn": basic("GCN", jk="cat", norm="batch_norm"),
    "gat": basic("GAT"),
    "sage": basic("GraphSAGE", jk="max"),
    "gin": basic("GIN"),
    "net": (lambda graph: Net(), lambda x, edges, graph: ((x, *edges), {}), 3),
    "sequential": (sequential, lambda x, edges, graph: ((x, *edges), {}), 2),
    "hgt": (Typed, lambda x, edges, graph: (by_type(x, graph), {}), 2),
    "hetero": (
        hetero_conv,
        lambda x, edges, graph: (
            ({"a": x}, dict.fromkeys([("a", "r", "a"), ("a", "s", "a")], edges[0])),
            {"edge_type_dict": dict.fromkeys([("a", "r", "a"), ("a", "s", "a")], edges[1])},
        ),
        2,
    ),
}


@pytest.mark.parametrize("kind", MODELS)
def test_models_run_compiled(kind, x, edges, graph):
    make, arguments, count = MODELS[kind]
    model = randomized(make(graph)).eval()
    args, kwargs = arguments(x, edges, graph)
    parts, expected = dict(model.named_modules()), model(*args, **kwargs)
    fast = compiled(model)
    assert ran(fast) == dict.fromkeys(ran(fast))
    for _ in range(2):
        assert_equal(fast(*args, **kwargs), expected)
    assert len(ran(fast)) == count
    assert all(ran(fast).values())
    # The model is as it was, and its own still.
    assert dict(model.named_modules()) == parts
    assert_equal(model(*args, **kwargs), expected)


@pytest.mark.parametrize("kind", ["net", "gcn"])
def test_layers_of_a_model_share_a_graph_and_its_indexes(kind, x, edges, graph, monkeypatch):
    """PyG's GCN adds loops in every layer, and weighs edges."""
    make, arguments, _ = MODELS[kind]
    model, built, build = randomized(make(graph)).eval(), [], hetune.HeteroGraph.__init__

    def noted(graph, *args, **more):
        built.append(graph)
        build(graph, *args, **more)

    monkeypatch.setattr(hetune.HeteroGraph, "__init__", noted)
    compiled(model)(*arguments(x, edges, graph)[0])
    shared = [
        each for each in built if each.num_edges >= graph.num_edges
    ]  # others are validation's
    assert len(shared) == 1
    traced = [of.constants for kept in _kept(shared[0]).values() for of in kept.values()]
    assert len(traced) == (2 if kind == "gcn" else 0)
    assert len({id(rows) for each in traced for rows in each.values()}) == len(traced) / 2


# As the model.


def test_names_parameters_and_state_are_the_models(net, x, edges):
    fast = compiled(net)
    assert list(fast.state_dict()) == list(net.state_dict())
    assert [*map(id, fast.parameters())] == [*map(id, net.parameters())]
    assert [name for name, _ in fast.named_parameters()] == [
        name for name, _ in net.named_parameters()
    ]
    assert isinstance(fast.layers, torch.nn.ModuleList)
    assert isinstance(fast.get_submodule("layers.0.layer"), hetune.CompiledLayer)
    assert_equal(fast.encode(x, *edges), net.encode(x, *edges))
    assert fast.layers[0].layer.explain(x, *edges).id in fast.layers[0].layer.variants


@pytest.mark.parametrize("writer", ["original", "compiled"])
def test_what_is_written_to_either_is_seen_by_both(writer, net, x, edges):
    fast = compiled(net)
    fast(x, *edges)
    model = net if writer == "original" else fast
    model.load_state_dict({name: value + 0.1 for name, value in net.state_dict().items()})
    assert_equal(fast(x, *edges), net(x, *edges))
    model.layers[0].scale = torch.nn.Parameter(torch.ones(8))
    model.layers[1].shift = torch.zeros(8)
    assert_equal(fast(x, *edges), net(x, *edges))
    model.apply(lambda part: isinstance(part, torch.nn.Linear) and part.weight.mul_(2))
    with torch.enable_grad():
        net(x, *edges).sum().backward()
    torch.optim.SGD(model.parameters(), 1e-6).step()
    assert_equal(fast(x, *edges), net(x, *edges))
    model.slope, model.lin = 0.1, torch.nn.Linear(8, 8)
    net.heads["a"] = randomized(geometric.RGATConv(8, 8, 3))
    assert_equal(fast(x, *edges), net(x, *edges))
    assert {*map(id, fast.parameters())} == {*map(id, net.parameters())}
    parametrize.register_parametrization(net.layers[0], "scale", torch.nn.Tanh())
    assert_equal(fast(x, *edges), net(x, *edges))
    parametrize.remove_parametrizations(net.layers[0], "scale")
    assert_equal(fast(x, *edges), net(x, *edges))
    assert all(ran(fast).values())


def test_modes(net, x, edges):
    fast = compiled(net)
    for model, training in ((fast, True), (net, False), (net, True), (fast, False)):
        model.train(training)
        assert {part.training for part in net.modules()} == {training}
        torch.manual_seed(0)
        found = fast(x, *edges)
        torch.manual_seed(0)
        # Statistics of a batch are nearly those of one.
        assert relative_error(found, net(x, *edges).double()) <= 1e-3
        assert fast.layers.training == training


def test_hooks(net, x, edges):
    seen = []
    fast = compiled(net)
    net.register_forward_hook(lambda *given: seen.append("net"))
    net.layers[0].register_forward_hook(lambda *given: seen.append("block"))
    fast.register_forward_hook(lambda *given: seen.append("compiled"))
    fast.layers[1].layer.register_forward_hook(lambda *given: seen.append("layer"))
    fast(x, *edges)
    assert seen == ["block", "layer", "block", "net", "compiled"]
    assert all(ran(fast).values())


def test_copies(net, x, edges):
    fast = compiled(net)
    expected = fast(x, *edges)
    twin = copy.deepcopy(fast)
    for parameter in twin.parameters():
        parameter.zero_()
    assert_equal(fast(x, *edges), expected)
    assert not twin(x, *edges).any()
    assert all(ran(twin).values())
    shallow = copy.copy(fast)
    shallow.slope = 1.0
    assert_equal(fast(x, *edges), expected)
    with pytest.raises(pickle.PicklingError, match="pickle the attribute `module`"):
        pickle.dumps(fast)


def test_compiled_anew_its_layers_keep_their_options(net, x, edges):
    fast = compiled(net, memory_limit=1 << 30)
    for again in (hetune.compile(fast), hetune.compile(fast, memory_limit=1)):
        assert again.module is net
        assert again.layers[0].layer is not fast.layers[0].layer
    with pytest.raises(MemoryLimitError):
        again(x, *edges)
    fast(x, *edges)


def test_layers_that_are_compiled_already_stay(net, x, edges):
    expected = net(x, *edges)
    net.heads["a"] = layer = hetune.compile(net.heads["a"], backend="torch")
    fast = compiled(net)
    assert fast.heads["a"] is layer
    assert_equal(fast(x, *edges), expected)
    assert len(ran(fast)) == 3


# Before calls, and about them.


def test_warming_and_explaining(net, x, edges):
    fast = compiled(net)
    warmed = fast.warm(x, *edges)
    assert set(warmed) == {"layers.0.layer", "layers.1.layer", "heads.a"}
    found = fast.explain(x, *edges)
    fast(x, *edges)
    assert ran(fast) == {name: choice.id for name, choice in found.items()}
    assert all(choice.id in warmed[name] for name, choice in found.items())


class Item(geometric.MessagePassing):
    """A layer that nothing traces: Python looks at its messages."""

    def forward(self, x, edge_index):
        return self.propagate(edge_index, x=x)

    def message(self, x_j):
        return x_j if x_j.sum().item() > 0 else 2 * x_j


class Mixed(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = geometric.RGCNConv(8, 8, 3, decomposed_layers=2), Item()
        self.middle = geometric.RGCNConv(8, 8, 3)

    def forward(self, x, *edges):
        return self.last(self.middle(self.first(x, *edges), *edges), edges[0])


def test_a_report_says_why_a_layer_is_not_compiled(x, edges):
    model = randomized(Mixed()).eval()
    with pytest.warns(FallbackWarning, match="^RGCNConv runs uncompiled: decomposed_layers=2"):
        fast = compiled(model)
    with pytest.warns(FallbackWarning, match="^Item runs uncompiled: ") as caught:
        found = [fast(x, *edges) for _ in range(2)]
    assert len(caught) == 1
    assert_equal(found[1], model(x, *edges))
    first, last, middle = str(fast.report()).splitlines()
    assert first.startswith("first   RGCNConv  original: decomposed_layers=2")
    assert last.startswith("last    Item      original: ")
    assert middle.startswith("middle  RGCNConv  compiled; the last call ran ")


def test_in_training_original_layers_run_and_warn_once(x, edges):
    net = randomized(Net())
    for layer in (net.layers[0].layer, net.layers[1].layer, net.heads["a"]):
        layer.register_full_backward_hook(lambda *_: None)
    fast = compiled(net)
    leaf = x.clone().requires_grad_()
    with pytest.warns(FallbackWarning, match="gradients are needed, and it has hooks") as caught:
        torch.enable_grad()(lambda: [fast(leaf, *edges).sum().backward() for _ in range(2)])()
    assert len(caught) == 1
    assert net.layers[0].layer.weight.grad.any()
    kind = fast.report().layers[0]
    assert kind.is_compiled
    assert str(kind).startswith("compiled; the last call ran the original: gradients are needed")


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 8)),
            "Sequential has no layer that passes messages, but 2 Linear, 1 ReLU: give a layer of",
        ),
        (torch.nn.ReLU(), "ReLU has no layer that passes messages, but no parts: give"),
    ],
)
def test_nothing_to_compile(model, message):
    with pytest.raises(InputError, match=message):
        hetune.compile(model)


def test_own_layers_and_lazy_ones(x, graph):
    lazy = geometric.HGTConv(-1, 8, graph.metadata())
    model = torch.nn.ModuleDict({"lazy": lazy, "own": nn.RGCN(8, 8, 3)}).eval()
    with pytest.warns(FallbackWarning, match="lazy parameters are not initialized yet"):
        fast = compiled(model)
    for layer in fast.values():
        assert layer(x, graph).shape == x.shape
    assert all(ran(fast).values())


def test_methods_on_the_instance_are_the_copys():
    """PyG's Sequential puts its forward there, where it needs no lambdas."""
    net = geometric.Sequential("x, index", [(geometric.GCNConv(8, 8), "x, index -> x")]).eval()
    fast, index = hetune.compile(net), torch.randint(0, 30, (2, 90))
    with torch.no_grad():
        x = torch.randn(30, 8)
        torch.testing.assert_close(fast(x, index), net(x, index), atol=1e-5, rtol=1e-5)
    assert "the last call ran" in str(fast.report())
