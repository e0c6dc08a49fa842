"""`hetune.compile` of DGL's layers: results, graphs that change, and what runs uncompiled."""

from __future__ import annotations

import copy
import os
import warnings

import pytest
import torch
from torch import nn

import hetune
from hetune.variants.errors import GraphError
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
NODE_TYPES = torch.randint(3, (NODES,), generator=RANDOM).sort().values
TYPES = torch.randint(5, (EDGES,), generator=RANDOM)
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
    "GatedGraphConv": [(lambda: conv.GatedGraphConv(WIDTH, 8, 2, 1), ())],
    "HGTConv": [
        (lambda: conv.HGTConv(WIDTH, 3, 2, 3, 5), (NODE_TYPES, TYPES)),
        (lambda: conv.HGTConv(WIDTH, 4, 3, 3, 5, use_norm=True), (NODE_TYPES, TYPES)),
    ],
    "RelGraphConv": [
        (lambda: conv.RelGraphConv(WIDTH, 4, 5), (TYPES,)),
        (
            lambda: conv.RelGraphConv(WIDTH, 4, 5, "basis", 2, self_loop=False, layer_norm=True),
            (TYPES, WEIGHT[:, None]),
        ),
    ],
}


def error(found, layer, g, *arguments):
    """Largest difference to what DGL gives in float64, relative to the largest element."""
    is_exact = [value is None or not value.is_floating_point() for value in arguments]
    exact = [v if same else v.double() for v, same in zip(arguments, is_exact, strict=True)]
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


@torch.no_grad()
def test_kernels_run_on_every_graph_and_its_changes():
    layer = conv.GraphConv(WIDTH, 4, allow_zero_in_degree=True)
    compiled = compile_layer(layer)
    with warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        for seed in range(2):
            g = graph(seed, EDGES + seed)
            for _ in range(2):
                assert error(compiled(g, X), layer, g, X) < 1e-5
                assert error(compiled(graph=g.int(), feat=X), layer, g, X) < 1e-5
                assert edges_of(g) is edges_of(g.local_var())
                g.add_edges([1, 2], [3, 4])
        batch = dgl.batch([dgl.node_subgraph(g, range(25)), dgl.node_subgraph(g, range(25, NODES))])
        assert error(compiled(batch, X), layer, batch, X) < 1e-5


class Own(nn.Module):
    """A user's layer, with functions of messages and a reducer of its own."""

    def __init__(self):
        super().__init__()
        self.key, self.value = nn.Linear(WIDTH, 5), nn.Linear(WIDTH, 4)

    def message(self, edges):
        score = torch.tanh(edges.src["k"] + edges.dst["k"]).sum(-1, keepdim=True)
        return {"score": score, "m": edges.src["v"]}

    def reduce(self, nodes):
        share = torch.softmax(nodes.mailbox["score"], dim=1)
        return {"h": (share * nodes.mailbox["m"]).sum(1) + nodes.data["v"]}

    def forward(self, g, x):
        with g.local_scope():
            g.ndata["k"], g.ndata["v"] = self.key(x), self.value(x)
            g.update_all(self.message, self.reduce)
            return g.ndata["h"]


BLOCKS = {
    "GraphConv": lambda width: conv.GraphConv(width, width),
    "GraphConv of weights": lambda width: conv.GraphConv(width, width, norm="right"),
    "GATConv": lambda width: conv.GATConv(width, width // 2, 2, residual=True),
    "SAGEConv": lambda width: conv.SAGEConv(width, width, "mean"),
    "SAGEConv of pools": lambda width: conv.SAGEConv(width, width, "pool"),
    "GINConv": lambda width: conv.GINConv(mlp(width, 8, width), "sum"),
}


class OnBlocks(nn.Module):
    """Two layers, each on a block of its own, as DGL's examples run them."""

    def __init__(self, make):
        super().__init__()
        self.layers = nn.ModuleList(make(WIDTH) for _ in range(2))

    def forward(self, blocks, x, weights=(None, None)):
        for block, layer, weight in zip(blocks, self.layers, weights, strict=True):
            x = (
                layer(block, x).flatten(1)
                if weight is None
                else layer(block, x, edge_weight=weight)
            )
        return x


@pytest.mark.parametrize("name", BLOCKS)
@torch.no_grad()
def test_a_samplers_blocks_run_as_they_are(name):
    torch.manual_seed(0)
    model, g = OnBlocks(BLOCKS[name]).eval(), graph(edges=2 * EDGES)
    compiled = hetune.compile(model, backend=None if name == "GraphConv" else "torch")
    sampler = dgl.dataloading.NeighborSampler([4, 3])
    with warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        for seeds in torch.randperm(NODES).split(12):
            inputs, _, blocks = sampler.sample(g, seeds)
            given = X[inputs], ()
            if name == "GraphConv of weights":
                given = X[inputs], [torch.rand(b.num_edges()) + 0.1 for b in blocks]
            weights = given[1] or (None, None)
            torch.testing.assert_close(
                compiled(blocks, given[0], weights), model(blocks, given[0], weights)
            )
    assert all(layer.variant for layer in compiled.report().layers)


@torch.no_grad()
def test_a_blocks_sources_may_have_features_of_their_own():
    layer = conv.GATConv((WIDTH, 4), 3, 2).eval()
    compiled = compile_layer(layer, backend="torch")
    block = dgl.to_block(dgl.in_subgraph(graph(), range(20)), torch.arange(20))
    pair = X[: block.num_src_nodes()], X0[:20, :4]
    for variant in (None, *compiled.variants):
        found, attention = compiled(block, pair, get_attention=True, variant=variant)
        torch.testing.assert_close([found, attention], [*layer(block, pair, get_attention=True)])
    assert compiled.status().variant


@torch.no_grad()
def test_new_types_make_another_graph():
    layer, g = conv.RelGraphConv(WIDTH, 4, 5).eval(), graph()
    compiled = compile_layer(layer)
    for types in (TYPES, TYPES.flip(0), TYPES.clamp(max=3)):
        for _ in range(2):
            assert error(compiled(g, X, types), layer, g, X, types) < 1e-5
    with pytest.raises(GraphError, match="5 edge types"):
        compiled(g, X, TYPES + 3)


@torch.no_grad()
def test_models_and_users_layers_are_compiled():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.own = conv.GATConv(WIDTH, 3, 2), Own()

        def forward(self, g, x):
            return self.own(g, self.first(g, x).flatten(1).relu())

    net, g = Net().eval(), graph()
    compiled = hetune.compile(net, backend="torch")
    assert error(compiled(g, X), net, g, X) < 1e-5
    assert all(layer.variant for layer in compiled.report().layers)
    lonely = dgl.graph((edges_of(g)[0], edges_of(g)[1] // 2), num_nodes=NODES)
    assert error(compiled.own(lonely, X), net.own, lonely, X) < 1e-5


@pytest.mark.parametrize(
    ("make", "change", "reason"),
    [
        (
            lambda: conv.GATConv(WIDTH, 4, 2),
            lambda g: dgl.remove_edges(g, g.in_edges(3, "eid")),
            "0-in-degree",
        ),
        (lambda: conv.SAGEConv(WIDTH, 4, "lstm"), lambda g: g, "messages"),
        (lambda: conv.SGConv(WIDTH, 4, cached=True), lambda g: g, "writes to _cached_h"),
    ],
    ids=["zero_degree", "lstm", "cached"],
)
@torch.no_grad()
def test_what_is_no_program_runs_in_dgl(make, change, reason):
    layer, g = make(), change(graph())
    compiled = compile_layer(layer, backend="torch")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", FallbackWarning)
        if reason == "0-in-degree":
            with pytest.raises(dgl.DGLError, match=reason):
                compiled(g, X)
        else:
            assert torch.equal(compiled(g, X), layer(g, X))
    assert any(reason in str(warning.message) for warning in told)
