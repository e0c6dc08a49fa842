"""Calls that come again are not read again, and yet nothing that changed goes unnoticed."""

import gc
import weakref

import pytest
import torch
from torch import nn

import hetune
from hetune.variants.errors import InputError
from hetune.variants.runtime.compiled import CompiledLayer
from hetune.variants.runtime.fallback import FallbackWarning
from hetune.variants.runtime.seen import SeenTensor
from hetune.variants.testing.graphs import AWKWARD
from hetune.variants.testing.layers import LAYERS, randomized

GRAPH = AWKWARD["several blocks"]()


@pytest.fixture
def repeated(monkeypatch):
    module = randomized(LAYERS["rgcn-mean"].make(GRAPH, 7, 1)).eval()
    layer, x = hetune.compile(module), torch.randn(GRAPH.num_nodes, 7)
    with torch.no_grad():
        for _ in range(2):  # calls are remembered from the second on: most graphs come once
            layer(x, GRAPH)
    reads, prepare = [], CompiledLayer._prepare

    def read(self, *args, **kwargs):
        reads.append(1)
        return prepare(self, *args, **kwargs)

    monkeypatch.setattr(CompiledLayer, "_prepare", read)
    return layer, module, x, reads


def expected(module, x):
    return module(x, GRAPH)


@torch.no_grad()
def test_what_comes_again_is_not_read_again(repeated):
    layer, module, x, reads = repeated
    others = torch.randn_like(x), x.t().contiguous().t()
    for rows in (x, *others):
        torch.testing.assert_close(layer(rows, GRAPH), expected(module, rows))
    out = torch.empty(GRAPH.num_nodes, 7)
    torch.testing.assert_close(layer(x, GRAPH, out=out), out)
    assert reads == []


@torch.no_grad()
def test_edges_that_change_are_read(repeated, monkeypatch):
    nn = pytest.importorskip("torch_geometric.nn")
    module, reads = nn.SAGEConv(7, 5).eval(), repeated[3]
    layer, x, edges = hetune.compile(module), torch.randn(20, 7), torch.randint(20, (2, 60))
    for _ in range(4):
        torch.testing.assert_close(layer(x, edges), module(x, edges))
    assert len(reads) == 2
    edges[1, :20] = 3
    torch.testing.assert_close(layer(x, edges), module(x, edges))
    module.aggr_module = nn.aggr.MaxAggregation()
    with pytest.warns(FallbackWarning, match="aggr_module was replaced"):
        layer(x, edges)
    assert len(reads) == 4
    held = weakref.ref(edges)
    del edges
    gc.collect()
    assert held() is None


@torch.no_grad()
def test_weights_that_change_are_seen(repeated):
    layer, module, x, reads = repeated
    first = next(module.parameters())
    first.mul_(2)
    torch.testing.assert_close(layer(x, GRAPH), expected(module, x))
    first.data = first.data * 2
    torch.testing.assert_close(layer(x, GRAPH), expected(module, x))
    first.data = torch._neg_view(first.data)
    torch.testing.assert_close(layer(x, GRAPH), expected(module, x))
    assert reads == []


@torch.no_grad()
def test_all_else_is_read(repeated):
    layer, module, x, reads = repeated
    hook = module.register_forward_hook(lambda module, args, out: out * 0)
    with pytest.warns(FallbackWarning, match="hooks are registered"):
        assert not layer(x, GRAPH).any()
    hook.remove()
    with torch.enable_grad():
        assert layer(x, GRAPH).requires_grad
    graph = AWKWARD["several blocks"]()
    torch.testing.assert_close(layer(x, graph), expected(module, x))
    with pytest.raises(InputError, match="one row of 7"):
        layer(x[1:], graph)
    with torch.autocast("cpu", torch.bfloat16):
        layer(x, graph)
    assert len(reads) == 5
    layer(x, graph)
    module.bfloat16()
    with pytest.warns(FallbackWarning), pytest.raises(InputError, match="one float dtype"):
        layer(x, graph)
    module.float()
    module.bias = nn.Parameter(module.bias.double())
    assert "bias is float64" in layer.status().refusal


@torch.no_grad()
def test_numbers_that_outgrow_float32_are_run_twice_once(repeated, monkeypatch):
    layer, module, x, _ = repeated
    runs, results = [], CompiledLayer._results

    def run(self, *args):
        runs.append(1)
        return results(self, *args)

    monkeypatch.setattr(CompiledLayer, "_results", run)
    module.weight.fill_(1.0)
    huge = torch.full_like(x, 2e38)
    with pytest.warns(FallbackWarning, match="outgrows float32"):
        layer(huge, GRAPH)
    layer(huge, GRAPH)
    assert len(runs) == 3


def test_another_dtype_is_another_tensor():
    tensor = torch.ones(3)
    seen = SeenTensor(tensor)
    assert seen.is_now(tensor)
    tensor.data = tensor.data.view(torch.int32)
    assert not seen.is_now(tensor)
