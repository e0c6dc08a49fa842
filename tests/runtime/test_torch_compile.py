"""Compiled layers within models that torch compiles: outside of its graphs, and still compiled."""

from __future__ import annotations

import pytest
import torch

from hetune import nn as hetune_nn
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


def test_layers_stay_compiled_outside_of_the_graph(net, x, edges, runs):
    expected = net(x, *edges)
    net.first, net.second = (
        compile_layer(each, backend="torch") for each in (net.first, net.second)
    )
    seen = []
    compiled = torch.compile(net, backend=graphs_of(seen))
    for calls in (1, 2, 3):
        assert relative_error(compiled(x, *edges), expected.double()) <= TOLERANCE
        assert len(runs) == 2 * calls
    assert len(seen) == 3  # before, between and after: nothing of the layers
    assert sum(node.op == "call_function" for each in seen for node in each.graph.nodes) <= 4


def test_a_layer_alone_and_a_function(net, x, edges, runs, graph):
    layer = compile_layer(net.first, backend="torch")
    expected = net.first(x, *edges).double()
    for compiled in (
        torch.compile(layer, backend="eager"),
        torch.compile(lambda *args: layer(*args), backend="eager"),
    ):
        for arguments in ((x, *edges), (x, graph)):
            assert relative_error(compiled(*arguments), expected) <= TOLERANCE
    assert len(runs) == 4


def test_a_whole_graph_is_torchs_own_error(net, x, edges):
    net.first = compile_layer(net.first, backend="torch")
    with pytest.raises(torch._dynamo.exc.Unsupported, match="they stay outside of torch's graphs"):
        torch.compile(net, backend="eager", fullgraph=True)(x, *edges)


def test_gradients_are_the_modules(net, x, edges):
    net.first = compile_layer(net.first, backend="torch")
    compiled = torch.compile(net.first, backend="eager")
    with torch.enable_grad(), pytest.warns(FallbackWarning, match="gradients are needed") as caught:
        compiled(x, *edges).sum().backward()
    assert net.first.module.weight.grad.any()
    assert caught[0].filename == __file__


def test_transforms_are_the_modules(x, graph):
    layer = compile_layer(hetune_nn.RGCN(8, 8, 3).requires_grad_(False), backend="torch")
    twice = torch.stack((x, 2 * x))
    expected = torch.stack([layer(each, graph) for each in twice])
    with pytest.warns(FallbackWarning, match=r"a transform of torch\.func is at work"):
        found = torch.compile(torch.vmap(lambda rows: layer(rows, graph)), backend="eager")(twice)
    assert relative_error(found, expected.double()) <= TOLERANCE
