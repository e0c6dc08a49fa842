"""`hetune.compile` of DGL's layers: results, graphs that change, and what runs uncompiled."""

from __future__ import annotations

import copy
import os
import warnings

import pytest
import torch
from torch import nn

from hetune.variants.frontend.dgl.on_edges import edges_of
from hetune.variants.runtime.compile_layer import compile_layer
from hetune.variants.runtime.fallback import FallbackWarning

os.environ.setdefault("DGLBACKEND", "pytorch")
dgl = pytest.importorskip("dgl")
conv = pytest.importorskip("dgl.nn")

NODES, EDGES, WIDTH = 50, 300, 6
RANDOM = torch.Generator().manual_seed(0)
X, X0 = (torch.randn(NODES, WIDTH, generator=RANDOM) for _ in range(2))
WEIGHT = torch.rand(EDGES, generator=RANDOM) + 0.1
ROWS = torch.randn(EDGES, WIDTH, generator=RANDOM)


def graph(seed=0, edges=EDGES):
    """A graph in which an edge leads to every node."""
    src, dst = torch.randint(NODES, (2, edges), generator=torch.Generator().manual_seed(seed))
    dst[:NODES] = torch.arange(NODES)
    return dgl.graph((src, dst), num_nodes=NODES)


def mlp(*widths):
    first, middle, last = widths
    return nn.Sequential(
        nn.Linear(first, middle), nn.BatchNorm1d(middle), nn.ReLU(), nn.Linear(middle, last)
    )


LAYERS = {
    "GraphConv": [
        *((lambda norm=norm: conv.GraphConv(WIDTH, 4, norm=norm), ()) for norm in ("left", "none")),
        (lambda: conv.GraphConv(WIDTH, 8, norm="right", bias=False), ()),
        (lambda: conv.GraphConv(WIDTH, 4, activation=torch.relu), (None, WEIGHT)),
    ],
    "GATConv": [
        (lambda: conv.GATConv(WIDTH, 4, 3), ()),
        (lambda: conv.GATConv(WIDTH, 4, 2, residual=True, activation=nn.ELU()), ()),
    ],
    "GATv2Conv": [
        (lambda: conv.GATv2Conv(WIDTH, 4, 3), ()),
        (lambda: conv.GATv2Conv(WIDTH, 3, 2, residual=True, share_weights=True), ()),
    ],
    "SAGEConv": [
        (lambda: conv.SAGEConv(WIDTH, 4, "mean"), (WEIGHT,)),
        (lambda: conv.SAGEConv(WIDTH, 4, "gcn"), ()),
        (lambda: conv.SAGEConv(WIDTH, 9, "pool", norm=nn.functional.normalize), ()),
    ],
    "GINConv": [
        (lambda: conv.GINConv(mlp(WIDTH, 8, 4), "sum", learn_eps=True), ()),
        (lambda: conv.GINConv(mlp(WIDTH, 8, 4), "max", init_eps=0.5), ()),
        (lambda: conv.GINConv(None, "mean"), (WEIGHT,)),
    ],
    "GINEConv": [(lambda: conv.GINEConv(mlp(WIDTH, 8, 4)), (ROWS,))],
    "SGConv": [
        (lambda: conv.SGConv(WIDTH, 4, 2), ()),
        (lambda: conv.SGConv(WIDTH, 4, 2, norm=torch.tanh), (WEIGHT,)),
    ],
    "TAGConv": [(lambda: conv.TAGConv(WIDTH, 4, 3), ())],
    "APPNPConv": [
        (lambda: conv.APPNPConv(3, 0.1), ()),
        (lambda: conv.APPNPConv(2, 0.2, edge_drop=0.5), (WEIGHT,)),
    ],
    "ChebConv": [(lambda: conv.ChebConv(WIDTH, 4, 3), (torch.tensor([2.0]),))],
    "EdgeConv": [(lambda: conv.EdgeConv(WIDTH, 4), ())],
    "DotGatConv": [(lambda: conv.DotGatConv(WIDTH, 4, 2), ())],
    "AGNNConv": [(lambda: conv.AGNNConv(), ())],
    "GCN2Conv": [(lambda: conv.GCN2Conv(WIDTH, 1), (X0,))],
    "NNConv": [(lambda: conv.NNConv(WIDTH, 3, nn.Linear(WIDTH, 3 * WIDTH), "mean"), (ROWS,))],
    "CFConv": [(lambda: conv.CFConv(WIDTH, WIDTH, 8, 4), (ROWS,))],
    "GMMConv": [(lambda: conv.GMMConv(WIDTH, 4, WIDTH, 2, "mean"), (ROWS,))],
    "EdgeGATConv": [(lambda: conv.EdgeGATConv(WIDTH, WIDTH, 4, 2), (ROWS,))],
}


def error(found, layer, g, *arguments):
    """Largest difference to what DGL gives in float64, relative to the largest element."""
    exact = [value if value is None else value.double() for value in arguments]
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)  # some layers make ones of their own
    expected = copy.deepcopy(layer).double()(g, *exact)
    torch.set_default_dtype(before)
    assert found.shape == expected.shape
    return (found - expected).abs().max() / expected.abs().max()


@pytest.mark.parametrize("name", LAYERS)
@torch.no_grad()
def test_a_compiled_layer_gives_dgls_results(name):
    torch.manual_seed(0)
    g = graph()
    for make, others in LAYERS[name]:
        layer = make().eval()
        compiled = compile_layer(layer, backend="torch")
        for variant in (None, *compiled.variants):
            assert error(compiled(g, X, *others, variant=variant), layer, g, X, *others) < 1e-5
        assert compiled.variants
