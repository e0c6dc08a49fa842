"""Steps of training on new small graphs run without graph objects, to the same bits."""

from __future__ import annotations

import pytest
import torch

from hetune.variants.backends.cpp.reused_launch import ReusedLaunch
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.runtime.compile_layer import compile_layer
from hetune.variants.runtime.executable import Executable
from hetune.variants.runtime.small_runs import SmallRuns
from hetune.variants.testing.layers import randomized

geometric = pytest.importorskip("torch_geometric.nn")

NODES, EDGES, WIDTH = 90, 400, 7
LAYERS = {
    "gcn": lambda: geometric.GCNConv(WIDTH, 8),
    "mean": lambda: geometric.SAGEConv(WIDTH, 8),
    "edges between stages": lambda: geometric.GATConv(WIDTH, 4, heads=2),
}
GRAPHS = {
    "random": lambda: torch.randint(0, NODES, (2, EDGES)),
    "a hub": lambda: torch.stack([torch.randint(0, NODES, (EDGES,)), torch.full((EDGES,), 3)]),
    "equal edges": lambda: torch.tensor([[5], [3]]).repeat(1, EDGES),  # a loop would come once
    "fewer edges": lambda: torch.randint(0, NODES, (2, 260)),
    "some nodes without": lambda: torch.randint(0, NODES // 3, (2, EDGES)),
}


@pytest.fixture
def counts(monkeypatch):
    """Graph objects and their runs, and runs without."""
    found = {"graphs": 0, "runs": 0, "small": 0}
    init, run, small = HeteroGraph.__init__, Executable.run, SmallRuns.run

    def counting(name, do):
        def counted(*args, **kwargs):
            found[name] += 1
            return do(*args, **kwargs)

        return counted

    monkeypatch.setattr(HeteroGraph, "__init__", counting("graphs", init))
    monkeypatch.setattr(Executable, "run", counting("runs", run))
    monkeypatch.setattr(SmallRuns, "run", counting("small", small))
    return found


def step(layer, x, edges):
    """The result, and gradients by rows and parameters."""
    x = x.clone().requires_grad_()
    out = layer(x, edges)
    weights = torch.linspace(-1, 1, out.numel()).view(out.shape)
    wanted = (x, *layer.parameters())
    return out, *torch.autograd.grad((out * weights).sum(), wanted)


def trained(module):
    """A layer, compiled, that has met steps of the graphs' sizes."""
    layer = compile_layer(randomized(module), dynamic=True)
    for made in (*GRAPHS.values(), *GRAPHS.values(), *GRAPHS.values()):
        step(layer, torch.randn(NODES, WIDTH), made())
    return layer


@pytest.mark.parametrize("module", LAYERS.values(), ids=LAYERS)
def test_they_have_the_bits_of_steps_on_graphs(module, counts):
    layer = trained(module())
    for name, made in GRAPHS.items():
        x, edges = torch.randn(NODES, WIDTH), made()
        before = dict(counts)
        found = step(layer, x, edges)
        assert counts["small"] > before["small"] + 1, name
        assert {**before, "small": 0} == {**counts, "small": 0}, name
        again = step(layer, x, edges)  # what comes back has a graph object
        assert counts["runs"] > before["runs"], name
        assert all(map(torch.equal, found, again)), name
        expected = step(layer.module, x, edges)
        pairs = zip(found, expected, strict=True)
        assert all(torch.allclose(a, b, atol=1e-4, rtol=1e-4) for a, b in pairs), name


def test_edges_may_be_written_to_before_the_backward():
    layer = trained(LAYERS["gcn"]())
    x, edges = torch.randn(NODES, WIDTH), GRAPHS["random"]()
    expected = torch.autograd.grad(layer.module(x, edges).sum(), layer.module.lin.weight)
    out = layer(x, edges)
    edges.zero_()
    found = torch.autograd.grad(out.sum(), layer.module.lin.weight)
    assert torch.allclose(*found, *expected, atol=1e-4)


def test_weights_are_those_of_now(counts):
    layer = trained(LAYERS["mean"]())
    with torch.no_grad():
        layer.module.lin_l.weight.mul_(2)
    x, edges, before = torch.randn(NODES, WIDTH), GRAPHS["random"](), dict(counts)
    found, expected = step(layer, x, edges), step(layer.module, x, edges)
    assert counts["runs"] == before["runs"]
    assert all(torch.allclose(a, b, atol=1e-4) for a, b in zip(found, expected, strict=True))
    layer.module.lin_l.weight.requires_grad_(False)  # other gradients are another backward
    for _ in range(4):
        before = dict(counts)
        layer(torch.randn(NODES, WIDTH), GRAPHS["random"]()).sum().backward()
    assert counts["runs"] == before["runs"]
    assert layer.module.lin_l.weight.grad is None
    assert layer.module.lin_r.weight.grad is not None


def test_a_backward_that_outgrows_float32_is_done_again_with_a_graph(counts):
    layer = trained(LAYERS["gcn"]())
    x, edges = torch.randn(NODES, WIDTH, requires_grad=True), GRAPHS["a hub"]()
    before, out = dict(counts), layer(x, edges)
    assert counts["graphs"] == before["graphs"]
    (found,) = torch.autograd.grad((out * 3e38).sum(), layer.module.lin.weight)
    assert counts["graphs"] > before["graphs"]
    (expected,) = torch.autograd.grad((layer(x, edges) * 3e38).sum(), layer.module.lin.weight)
    assert torch.equal(found.nan_to_num(), expected.nan_to_num())


def test_what_has_no_such_backward_goes_the_ordinary_way(counts):
    layer = compile_layer(randomized(geometric.RGCNConv(WIDTH, 8, 3)), dynamic=True)
    for _ in range(4):
        x, edges = torch.randn(NODES, WIDTH), GRAPHS["random"]()
        types = torch.randint(0, 3, (EDGES,))
        found, expected = layer(x, edges, types), layer.module(x, edges, types)
        assert torch.allclose(found, expected, atol=1e-4)
        found.sum().backward()
    assert counts["small"] == 0


def test_a_backward_has_no_more_threads_than_there_is_memory_for(monkeypatch):
    torch.set_num_threads(1)
    layer, threads = trained(LAYERS["gcn"]()), []
    out = layer(torch.randn(NODES, WIDTH, requires_grad=True), GRAPHS["random"]())
    call = ReusedLaunch.__call__
    monkeypatch.setattr(ReusedLaunch, "__call__", lambda *of: threads.append(of[1]) or call(*of))
    torch.set_num_threads(2)
    out.sum().backward()
    assert set(threads) == {1}


def test_sizes_of_too_large_graphs_leave_others_alone(counts):
    layer = compile_layer(randomized(geometric.SAGEConv(256, 256)), dynamic=True)
    for nodes in (12_000,) * 3 + (NODES,) * 4:
        layer(torch.randn(nodes, 256), torch.randint(0, nodes, (2, EDGES))).sum().backward()
    assert counts["small"] > 0
