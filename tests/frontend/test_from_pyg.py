"""Layers of PyG as layers of `hetune.nn`: the same numbers, whatever the options."""

import pytest
import torch

from hetune.nn import from_pyg
from hetune.variants.errors import InputError
from hetune.variants.graph.convert.edge_index_dict import to_edge_index_dict
from hetune.variants.testing.conformance import TOLERANCE, relative_error
from hetune.variants.testing.graphs import typed_graph
from hetune.variants.testing.layers import randomized

geometric = pytest.importorskip("torch_geometric.nn")


@pytest.fixture
def graph():
    return typed_graph((6, 5), [(0, 1, 30), (1, 0, 25), (0, 0, 10)])


@pytest.mark.parametrize(
    "make",
    [
        lambda: geometric.RGCNConv(8, 6, 3),
        lambda: geometric.RGCNConv(8, 6, 3, aggr="add", root_weight=False, bias=False),
        lambda: geometric.RGCNConv(8, 6, 3, num_bases=2),
        lambda: geometric.RGCNConv(8, 6, 3, num_blocks=2),
        lambda: geometric.FastRGCNConv(8, 6, 3),
        lambda: geometric.RGATConv(8, 4, 3, heads=2),
        lambda: geometric.RGATConv(
            8, 4, 3, heads=2, attention_mechanism="within-relation", num_bases=2, bias=False
        ),
        lambda: geometric.RGATConv(8, 4, 3, num_blocks=2, negative_slope=0.1),
    ],
    ids=[
        *("RGCN", "RGCN without root", "RGCN of bases", "RGCN of blocks", "FastRGCN"),
        *("RGAT", "RGAT within relations", "RGAT of blocks"),
    ],
)
@torch.no_grad()
def test_flat_layers(make, graph):
    module = randomized(make()).eval()
    x = torch.randn(graph.num_nodes, 8)
    expected = module(x, torch.stack((graph.src, graph.dst)).long(), graph.etype.long())
    assert relative_error(from_pyg(module)(x, graph), expected.double()) <= TOLERANCE


@pytest.mark.parametrize("widths", [(8, 8), (8, 4)], ids=["with gates", "without gates"])
@torch.no_grad()
def test_hgt(widths, graph):
    module = randomized(geometric.HGTConv(*widths, graph.metadata(), heads=2)).eval()
    x = torch.randn(graph.num_nodes, 8)
    found = from_pyg(module)(x, graph)
    sizes = torch.bincount(graph.ntype, minlength=2).tolist()
    by_type = dict(zip(graph.ntype_names, x.split(sizes), strict=True))
    expected = module(by_type, to_edge_index_dict(graph))
    rows = torch.cat([expected[name] for name in graph.ntype_names])
    assert relative_error(found, rows.double()) <= TOLERANCE


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: torch.nn.Linear(2, 2), "are not supported"),
        (lambda: geometric.RGATConv(4, 4, 2, edge_dim=3), "edge features are not supported"),
        (
            lambda: geometric.HGTConv({"a": 4, "b": 3}, 4, (["a", "b"], [("a", "r", "b")]), 2),
            "layers of hetune.nn have one width",
        ),
        (lambda: geometric.RGCNConv(4, 4, 2, flow="target_to_source"), "turn the edges round"),
    ],
)
def test_what_cannot_be_taken_is_said(make, why):
    with pytest.raises(InputError, match=why):
        from_pyg(make())
