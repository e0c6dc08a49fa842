"""Layers that know the names of their types: other graphs are refused, or met in their order."""

import copy
import warnings

import pytest
import torch

import hetune
from hetune import nn
from hetune.variants.errors import InputError
from hetune.variants.graph import HeteroGraph, Vocabulary, renumbered

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # torch_geometric calls deprecated parts of torch
    from torch_geometric.nn import HGTConv, RGCNConv

LIKES, HATES = ("ann", "likes", "bob"), ("bob", "hates", "ann")
NAMES = ["ann", "bob"]


def graph_of(*triples: tuple[str, str, str]) -> HeteroGraph:
    """Relations are numbered as they appear, nodes always alike."""
    relations = list(dict.fromkeys(relation for _, relation, _ in triples))
    src, etype, dst = zip(*triples, strict=True)
    return HeteroGraph(
        torch.tensor([NAMES.index(name) for name in src]),
        torch.tensor([NAMES.index(name) for name in dst]),
        torch.tensor([relations.index(name) for name in etype]),
        num_nodes=2,
        etype_names=relations,
    )


ONE, OTHER = graph_of(LIKES, HATES), graph_of(HATES, LIKES)
X = torch.randn(2, 7, generator=torch.Generator().manual_seed(0))


def typed(order: list[int]) -> HeteroGraph:
    """Authors and papers; types of nodes and edges in an order."""
    graph = HeteroGraph(
        torch.tensor([0, 1, 1, 2]),
        torch.tensor([2, 3, 4, 4]),
        torch.tensor([0, 0, 0, 1]),
        torch.tensor([0, 0, 1, 1, 1]),
        ntype_names=["author", "paper"],
        etype_names=["writes", "cites"],
        canonical_etypes=[("author", "writes", "paper"), ("paper", "cites", "paper")],
    )
    named = graph.vocabulary().as_dict()
    return renumbered(graph, {field: [names[i] for i in order] for field, names in named.items()})


@pytest.fixture(autouse=True)
def without_gradients():
    with torch.no_grad():
        yield


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.RGCN(7, 7, 2),
        lambda: nn.RGCN(7, 7, 2, num_bases=2),
        lambda: nn.RGAT(7, 7, 2, relation_attention=True),
        lambda: RGCNConv(7, 7, 2).eval(),
        lambda: RGCNConv(7, 7, 2, flow="target_to_source").eval(),
    ],
)
def test_relations_in_another_order_give_the_same_rows(make):
    torch.manual_seed(0)
    layer = make()
    fast = hetune.compile(layer, vocabulary=ONE)
    assert not torch.allclose(hetune.compile(layer)(X, ONE), hetune.compile(layer)(X, OTHER))
    torch.testing.assert_close(fast(X, OTHER), fast(X, ONE))
    torch.testing.assert_close(fast(X, ONE), hetune.compile(layer)(X, ONE))
    for variant in fast.variants[1::5]:
        out = fast(X, OTHER, variant=variant)
        torch.testing.assert_close(out, fast(X, ONE), atol=1e-4, rtol=1e-4)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.mul_(2)
    torch.testing.assert_close(fast(X, OTHER), fast(X, ONE))
    torch.testing.assert_close(copy.deepcopy(fast)(X, OTHER), fast(X, ONE))
    torch.testing.assert_close(hetune.compile(fast)(X, OTHER), fast(X, ONE))


@pytest.mark.parametrize("make", [lambda: nn.RGCN(7, 7, 2), lambda: RGCNConv(7, 7, 2)])
def test_a_call_in_the_original_module_meets_the_same_weights(make):
    layer = make()
    fast = hetune.compile(layer, vocabulary=ONE)
    expected = fast(X, ONE)
    layer.register_full_backward_hook(lambda *_: None)
    with torch.enable_grad(), pytest.warns(hetune.FallbackWarning, match="gradients are needed"):
        found = fast(X.clone().requires_grad_(), OTHER)
    assert found.requires_grad
    torch.testing.assert_close(found.detach(), expected)


@pytest.mark.parametrize(
    "make", [lambda metadata: nn.HGT(8, 8, metadata), lambda metadata: HGTConv(8, 8, metadata)]
)
def test_types_of_nodes_in_another_order_give_the_same_rows(make):
    graph, other = typed([0, 1]), typed([1, 0])
    assert other.ntype_names == ("paper", "author")
    layer = make(graph.metadata()).eval()
    fast = hetune.compile(layer)
    authors, papers = torch.randn(2, 8), torch.randn(3, 8)
    expected = fast(torch.cat([authors, papers]), graph)
    found = fast(torch.cat([papers, authors]), other)
    torch.testing.assert_close(torch.cat([found[3:], found[:3]]), expected)
    by_type = {"paper": papers, "author": authors}
    torch.testing.assert_close(fast(by_type, other)["paper"], fast(by_type, graph)["paper"])
    if isinstance(layer, nn.HGT):
        torch.testing.assert_close(layer(by_type, other)["paper"], layer(by_type, graph)["paper"])


def test_other_names_are_refused_and_the_difference_is_shown():
    fast = hetune.compile(nn.RGCN(7, 7, 2), vocabulary={"relations": ["likes", "hates"]})
    assert fast.vocabulary == Vocabulary(relations=("likes", "hates"))
    with pytest.raises(InputError, match="has 'knows', which the layer lacks, and lacks 'likes'"):
        fast(X, graph_of(HATES, ("ann", "knows", "bob")))
    # The advice works: numbered by the layer's vocabulary, graphs of fewer relations run.
    fewer = graph_of(HATES)
    with pytest.raises(InputError, match=r"it lacks 'likes'; name and number its types as"):
        fast(X, fewer)
    expected = nn.RGCN.forward(fast.module, X, renumbered(fewer, ONE))
    torch.testing.assert_close(fast(X, renumbered(fewer, fast.vocabulary)), expected)
    fast.warm(OTHER)


def test_other_node_types_are_refused():
    graph = typed([0, 1])
    fast = hetune.compile(nn.RGAT(7, 7, 2), vocabulary=graph)
    x = torch.randn(5, 7)
    fast(x, graph)
    named = {"node_types": ["writer", "paper"], "relations": ["writes", "cites"]}
    other = HeteroGraph(
        graph.src,
        graph.dst,
        graph.etype,
        graph.ntype,
        ntype_names=named["node_types"],
        etype_names=named["relations"],
    )
    with pytest.raises(InputError, match="has 'writer', which the layer lacks, and lacks 'author'"):
        fast(x, other)
    turned = HeteroGraph(
        graph.dst,
        graph.src,
        graph.etype,
        graph.ntype,
        ntype_names=graph.ntype_names,
        etype_names=graph.etype_names,
    )
    with pytest.raises(InputError, match="'writes' leads from 'paper' to 'author', and"):
        fast(x, turned)


@pytest.mark.parametrize(
    ("layer", "vocabulary", "message"),
    [
        (nn.RGCN(7, 7, 2), {"relations": ["a"]}, "has 1 relations but the layer was made for 2"),
        (nn.RGCN(7, 7, 2), {"node_types": ["a"]}, "the vocabulary has no relations"),
        (
            nn.HGT(8, 8, typed([0, 1]).metadata()),
            typed([1, 0]),
            "node_types are 'paper', 'author' but the layer's metadata has 'author', 'paper'",
        ),
    ],
)
def test_a_vocabulary_has_to_be_the_layers(layer, vocabulary, message):
    with pytest.raises(InputError, match=message):
        hetune.compile(layer, vocabulary=vocabulary)


def test_edge_tensors_bring_the_layers_numbers():
    layer = RGCNConv(7, 7, 2)
    fast = hetune.compile(layer, vocabulary=ONE)
    edges = torch.stack([ONE.src, ONE.dst]).long(), ONE.etype.long()
    torch.testing.assert_close(fast(X, *edges), layer(X, *edges))
