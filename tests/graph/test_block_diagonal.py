"""Graphs side by side: every node keeps its edges, and no edge leads from one graph to another."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hetune.variants.errors import GraphError
from hetune.variants.graph.block_diagonal import block_diagonal
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.testing.graphs import AWKWARD, typed_graph
from hetune.variants.testing.strategies import graphs

RELATIONS = [(0, 1), (1, 0), (0, 0)]


def draw(nodes, edges, seed=0):
    """A graph of these counts; all have the same types."""
    return typed_graph(nodes, [(s, t, n) for (s, t), n in zip(RELATIONS, edges, strict=True)], seed)


def edges_of(graph, node):
    """What leads to a node, in order: relation, type of the source, its id within that."""
    into = (graph.dst == node).nonzero().flatten()
    src, etype = graph.src[into].long(), graph.etype[into]
    first = torch.tensor(graph.node_offsets)[graph.ntype[src].long()]
    return list(zip(etype.tolist(), graph.ntype[src].tolist(), (src - first).tolist(), strict=True))


def check(parts):
    blocks = block_diagonal(parts)
    joined = blocks.graph
    joined.validate()
    assert joined.num_edges == sum(part.num_edges for part in parts)
    own = [torch.arange(part.num_nodes)[:, None] * 1.0 for part in parts]
    numbers = blocks.stacked([rows + 1000 * i for i, rows in enumerate(own)])
    back = blocks.split(numbers)
    assert all(torch.equal(a, b + 1000 * i) for i, (a, b) in enumerate(zip(back, own, strict=True)))
    for node, number in enumerate(numbers.flatten().long().tolist()):
        part, there = parts[number // 1000], number % 1000
        assert joined.ntype[node] == part.ntype[there]
        shift = [
            sum(int((p.ntype == t).sum()) for p in parts[: number // 1000])
            for t in range(joined.num_ntypes)
        ]
        expected = [(r, t, i + shift[t]) for r, t, i in edges_of(part, there)]
        assert edges_of(joined, node) == expected


@pytest.mark.parametrize("name", [name for name in AWKWARD if "thousands" not in name])
@pytest.mark.parametrize("count", [1, 3])
def test_copies(name, count):
    graph = AWKWARD[name]()
    check([graph] * count) if graph.num_nodes < 100 else check([graph])
    assert block_diagonal([graph] * count).graph.metadata() == graph.metadata()


def test_graphs_of_all_sizes():
    check(
        [
            draw((5, 3), (7, 4, 2), 1),
            draw((0, 0), (0, 0, 0)),
            draw((4, 0), (0, 0, 6), 2),
            draw((9, 6), (1, 0, 0), 3),
            draw((1, 2), (3, 3, 0), 4),
        ]
    )


@settings(max_examples=50, deadline=None)
@given(graphs(), st.integers(1, 3))
def test_drawn(graph, count):
    check([graph] * count)


def test_one_type_of_nodes_stays_as_it_is():
    blocks = block_diagonal([typed_graph((4,), [(0, 0, 5)], seed) for seed in range(2)])
    assert blocks.order is None
    assert blocks.sizes == (4, 4)


def test_relations_that_are_unknown_without_edges_are_those_of_who_knows_them():
    one = HeteroGraph(torch.tensor([0]), torch.tensor([2]), ntype=torch.tensor([0, 0, 1]))
    none = torch.empty(0, dtype=torch.int64)
    other = HeteroGraph(none, none, ntype=torch.tensor([0, 1]), num_etypes=1)
    assert block_diagonal([other, one]).graph.canonical_etypes == one.canonical_etypes


def test_other_types_are_refused():
    with pytest.raises(GraphError, match="other names"):
        block_diagonal([draw((1, 1), (0, 0, 0)), typed_graph((1, 1), [(0, 1, 0)])])
