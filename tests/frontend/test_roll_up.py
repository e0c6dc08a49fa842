"""Loops over parts of the edges as one program with edge types, compared with PyG's layers."""

from __future__ import annotations

import warnings

import pytest
import torch
from tests.frontend.message_passing_cases import WIDTH, pyg
from torch import nn

import hetune
from hetune.variants.program.nodes import Dot, Reshape, Space

NODES, RELATIONS = 61, 4
RANDOM = torch.Generator().manual_seed(0)
EDGES, OTHERS = (torch.randint(0, NODES - 4, (2, n), generator=RANDOM) for n in (400, 150))
TYPES = torch.randint(0, RELATIONS, (400,), generator=RANDOM)


class Own(pyg.RGCNConv):
    """A user's subclass."""

    def forward(self, x, edge_index, edge_type):
        return super().forward(x, edge_index, edge_type).relu() + x[:, :4].new_ones(4)


class Attention(pyg.MessagePassing):
    """A GAT for each relation, and what is at the nodes."""

    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList(
            pyg.GATConv(WIDTH, 4, add_self_loops=False) for _ in range(RELATIONS)
        )
        self.root = nn.Linear(WIDTH, 4)

    def forward(self, x, edge_index, edge_type):
        outs = [conv(x, edge_index[:, edge_type == i]) for i, conv in enumerate(self.convs)]
        return torch.stack(outs).mean(0) + self.root(x)


class OfEdges(pyg.MessagePassing):
    """A matrix for each relation, of messages; the maximum of each node's, in which they add up."""

    def __init__(self):
        super().__init__(flow="target_to_source")
        self.lins = nn.ModuleList(nn.Linear(WIDTH, 4) for _ in range(RELATIONS))

    def forward(self, x, edge_index, edge_type):
        return self.propagate(edge_index, x=x, edge_type=edge_type)

    def message(self, x_j, index, edge_type, dim_size):
        out = x_j.new_empty(x_j.size(0), 4)
        for i, lin in enumerate(self.lins):
            edges = (edge_type == i).nonzero().view(-1)
            rows, ends = lin(x_j[edges]).relu(), index[edges]
            most = rows.new_zeros(dim_size, 4)
            most.scatter_reduce_(
                0, ends.view(-1, 1).expand(-1, 4), rows, "amax", include_self=False
            )
            out[edges] = rows / (most[ends] + 0.5)
        return out


class InPlace(OfEdges):
    """The same matrices; sums are added to what is there."""

    def forward(self, x, edge_index, edge_type):
        out = torch.zeros(x.size(0), 4)
        for i, lin in enumerate(self.lins):
            src, dst = edge_index[0][edge_type == i], edge_index[1][edge_type == i]
            out.index_add_(0, dst, lin(x)[src])
        return out


class Unlike(Attention):
    """Relations that are not treated alike, and are many."""

    def forward(self, x, edge_index, edge_type):
        out = self.root(x)
        for i, conv in enumerate((*self.convs, *self.convs[1:])):
            h = conv(x, edge_index[:, (edge_type + i) % 7 == 0])
            out = out + (h.exp() if i % 2 else h)
        return out


TYPED = {
    "own": lambda: Own(WIDTH, 4, RELATIONS, aggr="max"),
    "blocks": lambda: Own(WIDTH, 4, RELATIONS, num_blocks=2),
    "bases": lambda: Own(WIDTH, 4, RELATIONS, num_bases=2, root_weight=False, bias=False),
    "film": lambda: pyg.FiLMConv(WIDTH, 4, num_relations=RELATIONS),
    "attention": Attention,
    "of edges": OfEdges,
    "in place": InPlace,
}
SETS = {
    "both ways": lambda: pyg.DirGNNConv(pyg.SAGEConv(WIDTH, 4), alpha=0.3),
    "both ways, attention": lambda: pyg.DirGNNConv(pyg.GATConv(WIDTH, 4, add_self_loops=False)),
    "signed": lambda: pyg.SignedConv(WIDTH, 4, first_aggr=True),
}


def check(model, *given, backend="torch"):
    torch.manual_seed(0)
    for parameter in model.parameters():
        parameter.add_(torch.rand_like(parameter) * 0.1)
    compiled = hetune.compile(model.eval(), backend=backend, mode="whole")
    with warnings.catch_warnings():
        warnings.simplefilter("error", hetune.FallbackWarning)
        torch.testing.assert_close(compiled(*given), model(*given), rtol=1e-5, atol=1e-5)
    if isinstance(compiled, hetune.CompiledModel):
        assert compiled.report().layers[0].variant is not None, compiled.report()
        return compiled.explain(*given)[""], compiled
    return compiled.explain(*given), compiled


@pytest.mark.parametrize("name", TYPED)
@torch.no_grad()
def test_loops_over_relations_give_pygs_results(name):
    x = torch.randn(NODES, WIDTH)
    _, compiled = check(
        TYPED[name](), x, EDGES, TYPES, backend="cpp" if name == "film" else "torch"
    )
    types = TYPES.clamp(max=1)  # others have no edges, where GATConv returns early
    types = TYPES.flip(0) if name == "attention" else types
    torch.testing.assert_close(
        compiled(x, EDGES, types), compiled.module(x, EDGES, types), rtol=1e-5, atol=1e-5
    )
    spaces = {param.type.space for param in compiled._adapter.program.params}
    assert Space.ETYPE in spaces


@pytest.mark.parametrize("name", SETS)
@torch.no_grad()
def test_several_sets_of_edges_give_pygs_results(name):
    given = [torch.randn(NODES, WIDTH), EDGES]
    check(SETS[name](), *given, *([OTHERS] if name == "signed" else []))


@torch.no_grad()
def test_relations_that_are_not_treated_alike_run_uncompiled():
    layer = Unlike().eval()
    compiled = hetune.compile(layer, backend="torch")
    x = torch.randn(NODES, WIDTH)
    with pytest.warns(hetune.FallbackWarning, match="parts of the edges are not all treated"):
        compiled(x, EDGES, TYPES)


OPTIONS = {
    "edge features": lambda: pyg.RGATConv(WIDTH, 4, RELATIONS, heads=2, edge_dim=WIDTH),
    "multiplicative": lambda: pyg.RGATConv(WIDTH, 4, RELATIONS, attention_mode=MULTIPLICATIVE),
    "scaled": lambda: pyg.RGATConv(WIDTH, 4, RELATIONS, mod="scaled"),
    "mean of heads": lambda: pyg.RGATConv(WIDTH, 4, RELATIONS, heads=2, concat=False),
    "within relations": lambda: pyg.RGATConv(
        WIDTH, 4, RELATIONS, heads=2, edge_dim=WIDTH, mod="f-scaled", **WITHIN
    ),
    "two dimensions": lambda: pyg.RGATConv(
        WIDTH, 4, RELATIONS, attention_mode=MULTIPLICATIVE, heads=2, dim=2, mod="additive", **WITHIN
    ),
    "maximum of messages": lambda: pyg.RGATConv(WIDTH, 4, RELATIONS, aggr="max"),
    "maximum": lambda: pyg.RGCNConv(WIDTH, 4, RELATIONS, num_bases=2, aggr="max"),
    "pairs": lambda: pyg.FastRGCNConv(WIDTH, 4, RELATIONS),
}
MULTIPLICATIVE = "multiplicative-self-attention"
WITHIN = {"attention_mechanism": "within-relation"}


@pytest.mark.parametrize("name", OPTIONS)
def test_options_of_relational_layers_are_traced(name):
    x, given = torch.randn(NODES, WIDTH, requires_grad=True), [EDGES, TYPES]
    if name in ("edge features", "within relations"):
        given.append(torch.randn(EDGES.shape[1], WIDTH, requires_grad=True))
    model = OPTIONS[name]().eval()
    for parameter in model.parameters():  # some of PyG's are never set
        nn.init.normal_(parameter, std=0.3)
    rows = (x, x[: NODES - 1]) if name == "pairs" else x
    if name == "pairs":
        given[0] = EDGES.clamp(max=NODES - 2)
    compiled = hetune.compile(model, backend="torch")
    with warnings.catch_warnings():
        warnings.simplefilter("error", hetune.FallbackWarning)
        found, expected = compiled(rows, *given), model(rows, *given)
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    if name == "edge features":  # a row's scores are inner products: weights come first
        lets = compiled._adapter.program.lets
        of_edges = [type(let.op) for let in lets if let.type.space is Space.EDGE]
        assert of_edges.count(Dot) == 3
        assert Reshape not in of_edges  # heads are an axis of the weight, so that sums may be first
        assert any("hybrid" in variant for variant in compiled.variants)
    inputs = [x, *model.parameters(), *(rows for rows in given if rows.requires_grad)]
    gradients, wanted = (
        torch.autograd.grad(result.square().sum(), inputs, allow_unused=True)
        for result in (found, expected)
    )
    for gradient, own in zip(gradients, wanted, strict=True):
        torch.testing.assert_close(gradient, own, rtol=1e-4, atol=1e-4)
    given[1] = TYPES.clamp(max=1)  # others have no edges
    with warnings.catch_warnings():
        warnings.simplefilter("error", hetune.FallbackWarning)
        found = compiled(rows, *given)
    torch.testing.assert_close(found, model(rows, *given), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("options", [{}, WITHIN], ids=["across", "within"])
@torch.no_grad()
def test_relational_attention_is_returned(options):
    conv = pyg.RGATConv(WIDTH, 4, RELATIONS, heads=2, **options).eval()
    x = torch.randn(NODES, WIDTH)
    compiled = hetune.compile(conv, backend="torch")
    with warnings.catch_warnings():
        warnings.simplefilter("error", hetune.FallbackWarning)
        out, (edges, attention) = compiled(x, EDGES, TYPES, return_attention_weights=True)
        plain = compiled(x, EDGES, TYPES)
    expected, (_, weights) = conv(x, EDGES, TYPES, return_attention_weights=True)
    assert torch.equal(edges, EDGES)
    for found, own in ((out, expected), (plain, expected), (attention, weights)):
        torch.testing.assert_close(found, own, rtol=1e-5, atol=1e-5)
