"""`hetune.vertex`: Seastar's programs, and what functions of a vertex may say."""

from __future__ import annotations

import os
import warnings

import pytest
import torch
from torch import dot, exp, nn
from torch.nn.functional import leaky_relu

import hetune
from hetune.variants.errors import InputError
from hetune.variants.frontend.vertex.layer import VertexLayer, tensors_of
from hetune.variants.frontend.vertex.lists import with_own_builtins
from hetune.variants.frontend.vertex.one_by_one import run_one_by_one
from hetune.variants.frontend.vertex.rows import VertexValue
from hetune.variants.runtime.compile_layer import compile_layer
from hetune.variants.runtime.fallback import FallbackWarning

pyg = pytest.importorskip("torch_geometric.nn")

NODES, EDGES, WIDTH, TYPES = 40, 160, 6, 3
RANDOM = torch.Generator().manual_seed(0)


def drawn(*shape):
    return torch.randn(*shape, generator=RANDOM)


EDGE_INDEX = torch.randint(NODES - 3, (2, EDGES), generator=RANDOM)
EDGE_TYPE = torch.randint(TYPES, (EDGES,), generator=RANDOM)
H, NORM, WEIGHT = drawn(NODES, WIDTH), drawn(NODES, 1).abs(), drawn(EDGES, 1).abs()
W, A, B, BIAS = drawn(WIDTH, 4), drawn(4), drawn(4), drawn(4)


def gcn(v, w, b):
    return torch.sigmoid(sum(torch.mm(u.h, w) * u.norm for u in v.innbs) + b)


def gat(v, w, a_src, a_dst, slope=0.2):
    e = [leaky_relu(dot(u.h @ w, a_src) + dot(v.h @ w, a_dst), slope) for u in v.innbs]
    c = [exp(score) for score in e]
    return sum(c[i] / sum(c) * (u.h @ w) for i, u in enumerate(v.innbs))


def appnp_step(v, alpha):
    return (1 - alpha) * sum(e.src.h * e.weight for e in v.inedges) + alpha * v.h_0


def rgcn(v, w, root):
    rows = (sum(e.src.h @ w[e.type] for e in r.inedges) / len(r.inedges) for r in v.relations)
    return v.h @ root + sum(rows)


def best_relation(v):
    return max(sum(e.src.h * e.weight for e in r.inedges) for r in v.relations)


def within(v, w):
    shares = []
    for r in v.relations:
        scores = [exp(torch.tanh(dot(e.src.h, w[e.type]))) for e in r.inedges]
        shares.append(
            sum(s / sum(scores) * e.src.h for s, e in zip(scores, r.inedges, strict=True))
        )
    return sum(shares)


def sage(v, w):
    count = len(v.innbs)
    mean = sum(v.innbs[i].h for i in range(count)) / max(count, 1)
    return torch.cat([mean, min(u.h for u in v.innbs), v.h], -1) @ w


def gaan(v, query, key, value, near, gate, out):
    """Gated attention (Zhang et al., UAI 2018), one head."""
    scores = [exp(dot(v.h @ query, u.h @ key) / 8) for u in v.innbs]
    read = sum(
        s / sum(scores) * leaky_relu(u.h @ value, 0.1) for s, u in zip(scores, v.innbs, strict=True)
    )
    mean = sum(u.h for u in v.innbs) / max(len(v.innbs), 1)
    seen = torch.cat([v.h, max(u.h @ near for u in v.innbs), mean], -1)
    return torch.cat([v.h, torch.sigmoid(dot(seen, gate)) * read], -1) @ out


NODE, TYPED = {"h": H}, {"type": EDGE_TYPE, "weight": WEIGHT}
FUNCTIONS = {
    gcn: ({"h": H, "norm": NORM}, {}, {"w": W, "b": BIAS}),
    gat: (NODE, {}, {"w": W, "a_src": A, "a_dst": B, "slope": 0.1}),
    appnp_step: ({"h": H, "h_0": H.flip(0)}, {"weight": WEIGHT}, {"alpha": 0.3}),
    rgcn: (NODE, TYPED, {"w": drawn(TYPES, WIDTH, 4), "root": W}),
    best_relation: (NODE, TYPED, {}),
    within: (NODE, TYPED, {"w": drawn(TYPES, WIDTH)}),
    sage: (NODE, {}, {"w": drawn(3 * WIDTH, 4)}),
    gaan: (
        NODE,
        {},
        {
            **{name: drawn(WIDTH, 4) for name in ("query", "key", "value", "near")},
            "gate": drawn(2 * WIDTH + 4),
            "out": drawn(WIDTH + 4, 4),
        },
    ),
}


def one_by_one(function, nodes, edges, arguments):
    """What the function means: it is run for each vertex, in float64."""
    values = {
        name: VertexValue(value.double()) if isinstance(value, torch.Tensor) else value
        for name, value in arguments.items()
    }
    nodes = {name: rows.double() for name, rows in nodes.items()}
    edges = {n: rows.double() if rows.is_floating_point() else rows for n, rows in edges.items()}
    return run_one_by_one(with_own_builtins(function), EDGE_INDEX, nodes, edges, values)


def close(found, expected):
    assert found.shape == expected.shape
    assert (found - expected).abs().max() / expected.abs().max() < 1e-5


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
@torch.no_grad()
def test_variants_give_what_the_function_means(function):
    nodes, edges, arguments = FUNCTIONS[function]
    expected = one_by_one(function, nodes, edges, arguments)
    weights = {name: w for name, w in arguments.items() if isinstance(w, torch.Tensor)}
    options = {name: value for name, value in arguments.items() if name not in weights}
    layer = VertexLayer(function, weights, options)
    close(layer(EDGE_INDEX, nodes, edges), expected)
    compiled = compile_layer(layer, backend="torch")
    close(compiled(EDGE_INDEX, nodes, edges), expected)
    assert compiled.variants
    for variant in compiled.variants:
        close(compiled(EDGE_INDEX, nodes, edges, variant=variant), expected)


@torch.no_grad()
def test_graphs_of_all_kinds_are_taken():
    nodes, edges, arguments = FUNCTIONS[rgcn]
    function, expected = hetune.vertex(rgcn), one_by_one(rgcn, nodes, edges, arguments)
    graph = hetune.HeteroGraph(*EDGE_INDEX, EDGE_TYPE, num_nodes=NODES)
    assert function.__name__ == "rgcn"
    for given, features in ((EDGE_INDEX, {"type": EDGE_TYPE}), (graph, {}), (graph, None)):
        for _ in range(2):
            close(function(given, nodes, features, **arguments), expected)
    os.environ.setdefault("DGLBACKEND", "pytorch")
    dgl = pytest.importorskip("dgl")
    theirs = dgl.graph(tuple(EDGE_INDEX), num_nodes=NODES)
    theirs.edata["etype"] = EDGE_TYPE
    close(function(theirs, nodes, **arguments), expected)


def test_functions_are_parts_of_modules():
    attention = hetune.vertex(gat)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.ParameterDict({"w": W.clone(), "a_src": A.clone(), "a_dst": B.clone()})
            self.second = nn.ParameterDict(
                {"w": drawn(4, 4), "a_src": B.clone(), "a_dst": A.clone()}
            )

        def forward(self, x, edge_index):
            hidden = attention(edge_index, {"h": x}, **self.first).relu()
            return attention(edge_index, {"h": hidden}, **self.second)

    def theirs(parts, x):
        layer = pyg.GATConv(len(parts["w"]), 4, add_self_loops=False, bias=False)
        layer.lin.weight = nn.Parameter(parts["w"].t().contiguous())
        layer.att_src = nn.Parameter(parts["a_src"].reshape(1, 1, -1).clone())
        layer.att_dst = nn.Parameter(parts["a_dst"].reshape(1, 1, -1).clone())
        return layer(x, EDGE_INDEX)

    net = Net()
    for _ in range(2):
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("error", FallbackWarning)
            for _ in range(2):
                close(net(H, EDGE_INDEX), theirs(net.second, theirs(net.first, H).relu()))
        net(H, EDGE_INDEX).sum().backward()
        with torch.no_grad():
            for parameter in net.parameters():
                parameter.sub_(0.01 * parameter.grad)  # an optimizer's step


@torch.no_grad()
def test_weights_that_come_once_are_taken_in_turn():
    function = hetune.vertex(gcn)
    for scale in range(12):
        weights = {"w": W * scale, "b": BIAS}
        out = function(EDGE_INDEX, {"h": H, "norm": NORM}, **weights)
        rows = torch.zeros(NODES, 4).index_add(0, EDGE_INDEX[1], ((H @ W) * NORM)[EDGE_INDEX[0]])
        close(out, torch.sigmoid(rows * scale + BIAS))
    assert all(len(layers) <= 8 for layers in function._layers._layers.values())


@pytest.mark.filterwarnings("ignore::hetune.FallbackWarning")
@torch.no_grad()
def test_what_is_missing_or_wrong_is_said():
    function = hetune.vertex(gcn)
    with pytest.raises(InputError, match="no feature 'norm' but h"):
        function(EDGE_INDEX, {"h": H}, w=W, b=BIAS)
    with pytest.raises(InputError, match="missing a required argument: 'b'"):
        function(EDGE_INDEX, {"h": H}, w=W)
    with pytest.raises(InputError, match="give a HeteroGraph, a DGL graph or an edge_index"):
        tensors_of([0, 1], {"h": H}, {})
    with pytest.raises(InputError, match="give v_feature"):
        hetune.vertex(gcn)(EDGE_INDEX, w=W, b=BIAS)
    with pytest.raises(InputError, match="no truth value"):
        hetune.vertex(lambda v: v.h if v.h.sum(-1) > 0 else -v.h)(EDGE_INDEX, {"h": H})
    with pytest.raises(InputError, match="returns no value of the vertex"):
        hetune.vertex(lambda v: v.innbs[0].h)(EDGE_INDEX, {"h": H})
    for function in (
        lambda v: v.h * v.h.sum(),
        lambda v: v.h * v.h.mean(0, keepdim=True),
        lambda v: torch.softmax(v.h, dim=-2),
        lambda v: torch.cat([v.h, v.h]),
        lambda v: v.h * v.h[0],
    ):
        with pytest.raises(InputError, match="one row"):
            hetune.vertex(function)(EDGE_INDEX, {"h": H})
    with pytest.raises(InputError, match="max of values takes no key"):
        hetune.vertex(lambda v: max((u.h for u in v.innbs), key=abs))(EDGE_INDEX, {"h": H})
    with pytest.raises(InputError, match="edges have no types"):
        hetune.vertex(best_relation)(EDGE_INDEX, {"h": H}, {"weight": WEIGHT})
    with pytest.raises(InputError, match="no constant: unhashable type: 'list'"):
        hetune.vertex(lambda v, of: v.h)(EDGE_INDEX, {"h": H}, of=[1])
    with pytest.raises(InputError, match="no function written in Python"):
        hetune.vertex(torch.relu)
