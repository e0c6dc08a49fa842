"""Calls that each bring a new small graph run without a graph object, to the same bits."""

from __future__ import annotations

import weakref

import pytest
import torch
from torch import nn

from hetune.variants.errors import GraphError
from hetune.variants.runtime.compile_layer import compile_layer
from hetune.variants.runtime.compiled import CompiledLayer
from hetune.variants.runtime.small_runs import SmallRuns
from hetune.variants.testing.layers import randomized

geometric = pytest.importorskip("torch_geometric.nn")
pytestmark = pytest.mark.usefixtures("no_grad")

NODES, EDGES, WIDTH = 90, 400, 7
SIZES = {"a": 50, "b": 40, "c": 0}
METADATA = list(SIZES), [("a", "to", "b"), ("b", "to", "a"), ("a", "in", "a"), ("c", "in", "a")]
LAYERS = {
    "gcn": lambda: geometric.GCNConv(WIDTH, 8),
    "mean": lambda: geometric.SAGEConv(WIDTH, 8),
    "two features": lambda: geometric.GATConv(WIDTH, 4, heads=2),
    "types": lambda: geometric.RGCNConv(WIDTH, 8, 3),
    "dictionaries": lambda: geometric.HGTConv({"a": WIDTH, "b": 6, "c": 7}, 8, METADATA, heads=2),
}


def drawn(*size):
    return torch.randint(0, NODES - 1, size)


GRAPHS = {
    "random": lambda: drawn(2, EDGES),
    "a hub": lambda: torch.stack([drawn(EDGES), torch.full((EDGES,), 3)]),
    "equal edges": lambda: drawn(2, 1).repeat(1, EDGES),
    "loops": lambda: drawn(EDGES).repeat(2, 1),
    "in order": lambda: drawn(2, EDGES)[:, drawn(EDGES).argsort()].sort(1).values,
    "columns of another tensor": lambda: drawn(EDGES, 3).t()[1:],
    "fewer edges": lambda: drawn(2, 260),
    "node by node": lambda: drawn(2, EDGES).t().contiguous().t(),
}


def called(module, edge_index):
    if isinstance(module, geometric.HGTConv):
        return by_type(module, edge_index)
    x = torch.randn(NODES, WIDTH)
    types = isinstance(module, geometric.RGCNConv)
    return x, edge_index, *([torch.randint(0, 3, edge_index.shape[1:])] if types else [])


def by_type(module, edge_index):
    """The last edge type is not there, and the last node type has no nodes."""
    x = {name: torch.randn(count, module.in_channels[name]) for name, count in SIZES.items()}
    parts = edge_index.tensor_split(3, 1)
    edges = {
        key: torch.stack([ids % SIZES[name] for ids, name in zip(part, key[::2], strict=True)])
        for key, part in zip(METADATA[1], parts, strict=False)
    }
    return x, edges


def same(found, expected):
    if isinstance(found, dict):
        return [*found] == [*expected] and all(same(found[key], expected[key]) for key in found)
    return torch.equal(found, expected)


@pytest.fixture
def runs(monkeypatch):
    """How many there were."""
    found, run = [0], SmallRuns.run

    def ran(self, threads):
        found[0] += 1
        return run(self, threads)

    monkeypatch.setattr(SmallRuns, "run", ran)
    return found


@pytest.fixture
def gcn():
    """A layer, compiled, that has met the size of `GRAPHS`."""
    layer = compile_layer(randomized(geometric.GCNConv(WIDTH, 8)), dynamic=True)
    for _ in range(4):
        layer(*called(None, drawn(2, EDGES)))
    return layer


@pytest.mark.parametrize("module", LAYERS.values(), ids=LAYERS)
def test_they_have_the_bits_of_runs_on_graphs(module, runs):
    module = randomized(module()).eval()
    layer = compile_layer(module, dynamic=True)
    for made in (*GRAPHS.values(), *GRAPHS.values()):  # sizes are met, and recordings confirmed
        layer(*called(module, made()))
    for name, made in GRAPHS.items():
        before, given = runs[0], called(module, made())
        new = layer(*given)
        assert runs[0] == before + 1, name
        assert same(new, layer(*given)), name  # what comes back has a graph object
        assert runs[0] == before + 1
        assert same(new, layer(*given)), name


def test_whatever_changes_is_seen(gcn, runs):
    fresh = called(None, drawn(2, EDGES))

    def is_right():
        args = fresh[0].clone(), fresh[1].clone()
        return torch.allclose(gcn(*args), gcn.module(*args), atol=1e-5)

    assert is_right()
    assert runs == [1]
    gcn.module.bias.mul_(2)
    assert is_right()
    assert runs == [1]
    assert is_right()
    assert runs == [2]
    with torch.enable_grad():
        assert gcn(fresh[0], fresh[1].clone()).requires_grad
    gcn.module.lin.register_forward_hook(lambda *_: torch.zeros(NODES, 8))
    with pytest.warns(UserWarning, match="hook"):
        assert is_right()
    assert runs == [2]


def test_edges_that_were_written_to_are_read_again(gcn, runs):
    x, edges = called(None, drawn(2, EDGES))
    gcn(x, edges)
    edges.copy_(drawn(2, EDGES))
    assert torch.allclose(gcn(x, edges), gcn.module(x, edges), atol=1e-5)
    assert runs == [1]


@pytest.mark.parametrize("wrong", [-1, NODES, 1 << 40])
def test_ids_are_checked(wrong, runs):
    layer = compile_layer(randomized(geometric.RGCNConv(WIDTH, 8, 3)), dynamic=True)
    for _ in range(3):
        layer(*called(layer.module, drawn(2, EDGES)))
    x, edges, types = called(layer.module, drawn(2, EDGES))
    edges[1, 7] = wrong
    with pytest.raises(GraphError, match=rf"edge_index\[1, 7\] is {wrong}"):
        layer(x, edges, types)
    types[9] = 3
    with pytest.raises(GraphError, match=r"edge_type\[9\] is 3"):
        layer(x, drawn(2, EDGES), types)
    with pytest.raises(GraphError, match="edge_type has shape"):
        layer(x, drawn(2, EDGES), types[:-1])
    assert runs == [1]


@pytest.mark.parametrize("wrong", [-1, SIZES["b"]])
def test_ids_are_checked_by_type(wrong, runs):
    layer = compile_layer(randomized(LAYERS["dictionaries"]()), dynamic=True)
    for _ in range(4):
        layer(*called(layer.module, drawn(2, EDGES)))
    x, edges = called(layer.module, drawn(2, EDGES))
    edges["a", "to", "b"][1, 7] = wrong
    with pytest.raises(GraphError, match=rf"\[1, 7\] is {wrong}"):
        layer(x, edges)
    assert runs == [2]


def test_what_outgrows_float32_is_left_to_the_module(gcn, runs):
    x, edges = called(None, drawn(2, EDGES))
    x[:] = 3e38
    with pytest.warns(UserWarning, match="float32"):
        found = gcn(x, edges)
    assert torch.equal(found, gcn.module(x, edges))


def test_a_model_reads_one_edge_index_in_all_layers(runs):
    layers = nn.ModuleList(
        compile_layer(randomized(geometric.GCNConv(7, 7)), dynamic=True) for _ in "ab"
    )
    for _ in range(6):
        x, edges = called(None, drawn(2, EDGES))
        found, expected = x, x
        for layer in layers:
            found, expected = layer(found, edges), layer.module(expected, edges)
        assert torch.allclose(found, expected, atol=1e-5)
    assert runs[0] >= 4


def test_tensors_of_inference_mode_are_read(runs):
    layer = compile_layer(randomized(geometric.GCNConv(WIDTH, 8)), dynamic=True)
    with torch.inference_mode():
        for _ in range(5):
            x, edges = called(None, drawn(2, EDGES))
            assert torch.allclose(layer(x, edges), layer.module(x, edges), atol=1e-5)
    assert runs == [3]


def test_layers_that_are_called_with_numbers_of_nodes():
    layer = compile_layer(randomized(geometric.RGCNConv(NODES, 8, 3)), dynamic=True)
    for ids in (None, torch.arange(NODES), torch.arange(NODES - 1)):
        edges, types = drawn(2, EDGES).clamp(max=NODES - 2), torch.randint(0, 3, (EDGES,))
        found = layer(ids, edges, types)
        assert torch.allclose(found, layer.module(ids, edges, types), atol=1e-5)


def test_torchs_default_device_changes_nothing(gcn, runs):
    x, edges = called(None, drawn(2, EDGES))
    with torch.device("meta"):
        found = gcn(x, edges)
    assert torch.allclose(found, gcn.module(x, edges), atol=1e-5)
    assert runs == [1]


def test_neither_rows_nor_results_are_kept(gcn, runs):
    x, edges = called(None, drawn(2, EDGES))
    kept = [*map(weakref.ref, (x, edges, gcn(x, edges)))]
    del x, edges
    assert runs == [1]
    assert [each() for each in kept] == [None] * 3


def test_the_last_call_may_be_another_threads(monkeypatch):
    layer = compile_layer(randomized(geometric.GCNConv(WIDTH, 8)), dynamic=True)
    compute = CompiledLayer._compute

    def computed(self, *given):
        found = compute(self, *given)
        self._last.set(None, "the other one ran its module")
        return found

    monkeypatch.setattr(CompiledLayer, "_compute", computed)
    for _ in range(3):
        args = called(None, drawn(2, EDGES))
        assert torch.allclose(layer(*args), layer.module(*args), atol=1e-5)
