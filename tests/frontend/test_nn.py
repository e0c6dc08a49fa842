"""hetune.nn: against the papers' formulas edge by edge, PyG's layers, and its own options."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import leaky_relu
from torch.nn.utils import parametrizations, parametrize

from hetune.variants.errors import HetuneError, InputError, ProgramError
from hetune.variants.frontend.adapt import adapt
from hetune.variants.frontend.adapter import Adapter, Unsupported
from hetune.variants.frontend.functions import dot, softmax
from hetune.variants.frontend.nn import HGT, RGAT, RGCN, FlatLayer
from hetune.variants.frontend.trace import layer_program, node
from hetune.variants.graph import from_edge_index_dict
from hetune.variants.runtime.compile_layer import compile_layer
from hetune.variants.runtime.fallback import FallbackWarning

from .conftest import GRAPHS, METADATA, NUM_RELATIONS, TYPED

CLOSE = {"rtol": 1e-9, "atol": 1e-9}


def drawn(layer):
    draw = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in layer.double().parameters():
            values = torch.randn(parameter.shape, generator=draw, dtype=torch.float64)
            parameter.copy_(values / 2)
    return layer


def features(graph, width=8):
    draw = torch.Generator().manual_seed(6)
    return torch.randn(graph.num_nodes, width, generator=draw, dtype=torch.float64)


def edges_of(graph):
    return list(zip(graph.src.tolist(), graph.dst.tolist(), graph.etype.tolist(), strict=True))


def relation_weights(layer, blocks=None):
    if layer.comp is not None:
        return sum(layer.comp[:, b, None, None] * layer.weight[b] for b in range(2))
    if blocks:
        return torch.stack([torch.block_diag(*weight) for weight in layer.weight])
    return layer.weight


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"aggr": "add", "self_loop": False, "bias": False},
        {"num_bases": 2},
        {"num_blocks": 4, "residual": True},
        {"residual": True, "self_loop": False},
    ],
    ids=str,
)
def test_rgcn(options, graph):
    layer = drawn(RGCN(8, 8, NUM_RELATIONS, **options))
    x, edges = features(graph), edges_of(graph)
    w = relation_weights(layer, options.get("num_blocks"))
    expected = torch.zeros(graph.num_nodes, 8, dtype=torch.float64)
    for src, dst, r in edges:
        same = sum((d, t) == (dst, r) for _, d, t in edges)
        expected[dst] += x[src] @ w[r] / (1 if options.get("aggr") == "add" else same)
    if layer.root is not None:
        expected += x @ layer.root
    if layer.bias is not None:
        expected += layer.bias
    if options.get("residual"):
        expected += x
    torch.testing.assert_close(layer(x, graph), expected, **CLOSE)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"softmax": "within", "relation_attention": True},
        {"heads": 2, "relation_attention": True, "self_loop": True},
        {"heads": 4, "attention": "shared", "bias": False},
        {"heads": 2, "attention": "shared", "relation_attention": True, "softmax": "within"},
        {"heads": 2, "num_bases": 2, "residual": True, "negative_slope": 0.5},
    ],
    ids=str,
)
def test_rgat(options, graph):
    heads = options.get("heads", 1)
    layer = drawn(RGAT(8, 8 // heads, NUM_RELATIONS, **options))
    x, edges, w = features(graph), edges_of(graph), relation_weights(layer)
    whole = options.get("attention") == "shared"

    def heads_of(row):
        return row.expand(heads, 8) if whole else row.view(heads, -1)

    scores = []
    for src, dst, r in edges:
        own = r if layer.att_q.shape[0] > 1 else 0
        q = (heads_of(x[dst] @ w[r]) * layer.att_q[own]).sum(-1)
        k = (heads_of(x[src] @ w[r]) * layer.att_k[own]).sum(-1)
        scores.append(leaky_relu(q + k, options.get("negative_slope", 0.2)).exp())
    expected = torch.zeros(graph.num_nodes, 8, dtype=torch.float64)
    for (src, dst, r), score in zip(edges, scores, strict=True):
        within = options.get("softmax") == "within"
        rivals = sum(
            other
            for (_, d, t), other in zip(edges, scores, strict=True)
            if d == dst and (t == r or not within)
        )
        message = (x[src] @ w[r]).view(heads, -1)
        expected[dst] += ((score / rivals)[:, None] * message).flatten()
    for term in (x @ layer.root if layer.root is not None else None, layer.bias):
        expected += 0 if term is None else term
    if options.get("residual"):
        expected += x
    torch.testing.assert_close(layer(x, graph), expected, **CLOSE)


@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("width", [8, 4], ids=["skip", "no_skip"])
def test_hgt_is_pygs(heads, width, typed_graph):
    geometric = pytest.importorskip("torch_geometric.nn")
    x_dict, edge_index_dict = typed_graph
    layer = drawn(HGT(8, width, METADATA, heads))
    conv = geometric.HGTConv(8, width, METADATA, heads=heads).double()
    depth = width // heads
    with torch.no_grad():
        for t, name in enumerate(METADATA[0]):
            conv.kqv_lin.lins[name].weight.copy_(torch.cat([*layer.kqv_weight[:, t]], 1).t())
            conv.kqv_lin.lins[name].bias.copy_(layer.kqv_bias[:, t].flatten())
            conv.out_lin.lins[name].weight.copy_(layer.out_weight[t].t())
            conv.out_lin.lins[name].bias.copy_(layer.out_bias[t])
            if layer.skip is not None:
                conv.skip[name].fill_(layer.skip[t])
        conv.k_rel.weight.copy_(layer.a_rel.transpose(0, 1).reshape(-1, depth, depth))
        conv.v_rel.weight.copy_(layer.m_rel.transpose(0, 1).reshape(-1, depth, depth))
        for r, key in enumerate(METADATA[1]):
            conv.p_rel["__".join(key)].copy_(layer.p_rel[r : r + 1])
        expected, found = conv(x_dict, edge_index_dict), layer(x_dict, edge_index_dict)
    assert found.keys() == expected.keys()
    for name in expected:
        torch.testing.assert_close(found[name], expected[name], **CLOSE)


def test_hgt_takes_a_graph_and_one_tensor(typed_graph):
    x_dict, edge_index_dict = typed_graph
    layer = HGT(8, 8, METADATA, 2).double()
    graph = from_edge_index_dict(edge_index_dict, x_dict=x_dict, metadata=METADATA)
    x = torch.cat([x_dict[name] for name in METADATA[0]])
    by_type = layer(x_dict, graph)
    together = torch.cat([by_type[name] for name in METADATA[0]])
    assert torch.equal(layer(x, graph), together)


def test_hgt_does_not_mind_the_order_of_dictionaries(every_relation):
    x_dict, edges = every_relation
    layer = HGT(8, 8, METADATA, 2).double()
    expected = layer(x_dict, edges)
    found = layer(dict(reversed(x_dict.items())), dict(reversed(edges.items())))
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_edge_tensors_and_graphs_give_the_same(graph):
    layer = RGCN(8, 3, NUM_RELATIONS).double()
    x = features(graph)
    edge_index = torch.stack([graph.src, graph.dst])
    assert torch.equal(layer(x, edge_index, graph.etype), layer(x, graph))


@pytest.mark.parametrize(
    "layer",
    [
        RGCN(8, 8, NUM_RELATIONS, num_bases=2),
        RGCN(8, 8, NUM_RELATIONS, num_blocks=2),
        RGAT(8, 4, NUM_RELATIONS, heads=2, attention="shared", self_loop=True),
        HGT(8, 8, METADATA, 2),
    ],
    ids=["bases", "blocks", "rgat", "hgt"],
)
def test_every_parameter_gets_a_gradient(layer, request):
    if isinstance(layer, HGT):
        x_dict, edges = request.getfixturevalue("every_relation")
        out = torch.cat([*layer({k: x.float() for k, x in x_dict.items()}, edges).values()])
    else:
        graph = request.getfixturevalue("dense")
        out = layer(features(graph).float(), graph)
    (out * torch.linspace(-1, 1, out.numel()).view_as(out)).sum().backward()
    for name, parameter in layer.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name


@pytest.fixture
def dense():
    return GRAPHS["random"]


@pytest.fixture
def every_relation():
    return TYPED["random"]


def test_adapted_layers_have_the_weights_of_their_programs():
    for layer in (
        RGCN(8, 4, 3, num_bases=2),
        RGCN(8, 4, 3, num_blocks=2),
        RGAT(8, 4, 3, heads=2, attention="shared"),
        RGAT(8, 4, 3, relation_attention=True),
        HGT(8, 4, METADATA, 2),
    ):
        adapter = adapt(layer)
        assert isinstance(adapter, Adapter)
        weights = adapter.weights()
        for param in adapter.program.params:
            if param.role == "weight":
                assert weights[param.name].shape[1:] == param.type.shape
                assert weights[param.name].is_contiguous()


def test_a_subclass_with_its_own_forward_is_refused():
    class Twice(RGCN):
        def forward(self, x, edges, edge_type=None):
            return 2 * super().forward(x, edges, edge_type)

    assert adapt(Twice(4, 4, 2)) == Unsupported("Twice has a forward() of its own")


class LowRank(torch.nn.Module):
    """Adds a product of two matrices, scaled by an attribute."""

    def __init__(self, rows, columns):
        super().__init__()
        self.a, self.b = (torch.nn.Parameter(torch.randn(2, size)) for size in (rows, columns))
        self.scale = 1.0

    def forward(self, weight):
        return weight + self.scale * (self.a.T @ self.b)


PARAMETRIZE = {
    "weight_norm": lambda layer: parametrizations.weight_norm(layer, "root"),
    "orthogonal": lambda layer: parametrizations.orthogonal(layer, "root"),
    "low rank": lambda layer: parametrize.register_parametrization(layer, "root", LowRank(4, 4)),
}


@pytest.mark.parametrize("register", PARAMETRIZE.values(), ids=PARAMETRIZE)
def test_parametrized_layers_are_refused(register):
    layer = RGCN(4, 4, 2)
    adapter = adapt(layer)
    register(layer)
    assert "compile it anew" in adapter.refusal()
    assert adapt(layer).reason.startswith("weights are parametrized: torch.nn.utils.parametrize.")
    parametrize.remove_parametrizations(layer, "root")
    assert isinstance(adapt(layer), Adapter)


def test_what_parametrizations_depend_on_is_followed():
    layer, low_rank = RGCN(4, 4, NUM_RELATIONS), LowRank(4, 4)
    parametrize.register_parametrization(layer, "root", low_rank)
    with pytest.warns(FallbackWarning, match="weights are parametrized"):
        fast = compile_layer(layer, backend="torch")
    graph = GRAPHS["random"]
    x = torch.randn(graph.num_nodes, 4)
    with torch.no_grad():
        for scale in (1.0, 2.0):
            low_rank.scale = scale
            assert torch.equal(fast(x, graph), layer(x, graph))


def test_weights_that_are_plain_tensors_are_refused():
    layer = RGCN(4, 4, 2)
    adapter, weight = adapt(layer), layer.weight
    del layer.weight
    layer.weight = 2 * weight.detach()
    reason = (
        "weight is a plain tensor, not a parameter: assign a torch.nn.Parameter, or register it as "
        "a buffer"
    )
    assert adapter.refusal() == reason
    assert adapt(layer) == Unsupported(reason)
    del layer.weight
    layer.register_buffer("weight", 2 * weight.detach())
    assert isinstance(adapt(layer), Adapter)


@layer_program
def shares(g, x):
    return softmax(dot(g.src(x), g.dst(x)), over=g.nodes)


class Shares(FlatLayer):
    """Shares of each edge, in the order in which edges are given."""

    kind, num_relations = "rgat", NUM_RELATIONS

    def program(self):
        return shares(x=node(2, 4))

    def _parts(self):
        return {}


def test_what_gives_rows_of_edges_runs_compiled(dense):
    layer, x = Shares(), features(dense).float()
    fast = compile_layer(layer)
    for variant in fast.variants:
        torch.testing.assert_close(fast(x, dense, variant=variant), layer(x, dense))


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda: RGCN(0, 4, 2), InputError, "in_channels is 0: give an integer of at least 1"),
        (lambda: RGCN(8.5, 4, 2), InputError, "in_channels is 8.5: give an integer"),
        (lambda: RGAT(None, 4, 2), InputError, "in_channels is None: give an integer"),
        (lambda: RGCN(4, 4, None), InputError, "num_relations is None: give an integer"),
        (lambda: RGCN(4, torch.ones(2), 2), InputError, "out_channels is tensor"),
        (lambda: RGAT(4, 4, -1), InputError, "num_relations is -1: give an integer of at least 0"),
        (lambda: RGCN(4, 4, 2, num_bases=0), InputError, "num_bases is 0: give an integer"),
        (lambda: HGT(4, 4, 3), InputError, "metadata is 3: give names of node types"),
        (lambda: HGT(4, 4, (["a"], [("a", "r", "b")])), InputError, "metadata has the edge type"),
        (lambda: RGCN(4, 4, 2, num_bases=2, num_blocks=2), InputError, "give num_bases or"),
        (lambda: RGCN(4, 4, 2, num_blocks=3), ProgramError, "widths 4 and 4 do not divide into 3"),
        (lambda: RGCN(4, 4, 2, aggr="max"), ProgramError, "rgcn has no aggr='max': take 'mean'"),
        (lambda: RGCN(4, 3, 2, residual=True), ProgramError, "x of width 4 cannot be added to a"),
        (lambda: RGAT(4, 4, 2, softmax="all"), ProgramError, "rgat has no softmax='all': take"),
        (lambda: RGAT(4, 4, 2, attention="own"), ProgramError, "rgat has no attention='own'"),
        (lambda: HGT(4, 5, METADATA, 2), ProgramError, "width 5 does not divide into 2 heads"),
    ],
)
def test_impossible_options(make, kind, message):
    with pytest.raises(kind) as error:
        make()
    assert isinstance(error.value, HetuneError)
    assert str(error.value).startswith(message)


def test_inputs_that_do_not_fit(dense, every_relation):
    with pytest.raises(InputError, match=r"x has the shape \[12, 7\]: give one row of 8 for each"):
        RGCN(8, 4, NUM_RELATIONS)(torch.ones(12, 7), dense)
    with pytest.raises(InputError, match="5 edge types but the layer was made for 4"):
        RGCN(8, 4, 4)(torch.ones(12, 8), dense)
    x_dict, edges = every_relation
    layer = HGT(8, 4, METADATA).double()
    graph = from_edge_index_dict(edges, x_dict=x_dict, metadata=METADATA)
    with pytest.raises(InputError, match="x is a tensor but the edges are a dictionary"):
        layer(torch.ones(15, 8), edges)
    with pytest.raises(InputError, match="x has 2 rows for the node type 'paper' but the graph"):
        layer(x_dict | {"paper": x_dict["paper"][:2]}, graph)
    with pytest.raises(InputError, match="the graph's relations are not those"):
        HGT(8, 4, (METADATA[0], METADATA[1][:2])).double()(x_dict, graph)
