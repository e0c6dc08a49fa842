"""Edited graphs: the edges that are left and come, and their order."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hetune.variants.errors import GraphError
from hetune.variants.graph import edited, from_edge_index_dict
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.testing.graphs import AWKWARD
from hetune.variants.testing.strategies import graphs

Edge = tuple[int, int, int]
"""Edge type, source and destination, from 0 in each node type."""


def library() -> HeteroGraph:
    """Three authors, four papers; author 1 wrote paper 2 twice."""
    return from_edge_index_dict(
        {
            ("author", "writes", "paper"): torch.tensor([[0, 1, 1, 2], [0, 2, 2, 3]]),
            ("paper", "cites", "paper"): torch.tensor([[0, 3], [1, 3]]),
        },
        {"author": 3, "paper": 4},
    )


def edges_of(graph: HeteroGraph) -> list[Edge]:
    """In the graph's own order."""
    offsets = dict(zip(graph.ntype_names, graph.node_offsets, strict=False))
    ends = [(offsets[s], offsets[d]) for s, _, d in graph.canonical_etypes]
    columns = zip(graph.etype.tolist(), graph.src.tolist(), graph.dst.tolist(), strict=True)
    return [(r, s - ends[r][0], d - ends[r][1]) for r, s, d in columns]


def by_type(graph: HeteroGraph, edges: list[Edge]) -> dict[str, np.ndarray]:
    names = graph.etype_names
    return {
        names[r]: np.array([(s, d) for t, s, d in edges if t == r], np.int64).T
        for r in {t for t, _, _ in edges}
    }


@st.composite
def edits(draw: st.DrawFn) -> tuple[HeteroGraph, list[Edge], list[Edge], dict[str, int], str]:
    """A graph, edges to remove and to add, nodes to add, and what happens to parallel edges."""
    graph = draw(graphs())
    there = edges_of(graph)
    parallel = draw(st.sampled_from(["all", "each"]))
    gone = (
        [there[i] for i in sorted(draw(st.sets(st.integers(0, len(there) - 1))))] if there else []
    )
    add_nodes = {
        name: draw(st.integers(0, 2)) for name in draw(st.sets(st.sampled_from(graph.ntype_names)))
    }
    sizes = dict(zip(graph.ntype_names, np.diff(graph.node_offsets).tolist(), strict=True))
    sizes = {name: count + add_nodes.get(name, 0) for name, count in sizes.items()}
    ends = [(sizes[s], sizes[d]) for s, _, d in graph.canonical_etypes]
    usable = [r for r, (s, d) in enumerate(ends) if s and d]
    come: list[Edge] = []
    if usable:
        for r, s, d in draw(
            st.lists(st.tuples(st.sampled_from(usable), *[st.integers(0, 9)] * 2), max_size=12)
        ):
            come.append((r, s % ends[r][0], d % ends[r][1]))
    return graph, gone, come, add_nodes, parallel


def expected(there: list[Edge], gone: list[Edge], come: list[Edge], parallel: str) -> list[Edge]:
    if parallel == "all":
        left = [edge for edge in there if edge not in gone]
    else:
        left = there[::-1]
        for edge in gone:
            left.remove(edge)  # the first from behind
        left.reverse()
    return left + sorted(come, key=lambda edge: edge[0])


@settings(max_examples=150, deadline=None)
@given(edits())
def test_edges_that_are_left_and_come(edit) -> None:
    graph, gone, come, add_nodes, parallel = edit
    before = edges_of(graph)
    found = edited(
        graph,
        add=by_type(graph, come),
        remove=by_type(graph, gone),
        add_nodes=add_nodes,
        parallel=parallel,
    )
    assert edges_of(found) == expected(before, gone, come, parallel)
    assert edges_of(graph) == before
    sizes = np.diff(graph.node_offsets)
    assert np.diff(found.node_offsets).tolist() == [
        n + add_nodes.get(name, 0) for name, n in zip(graph.ntype_names, sizes, strict=True)
    ]
    assert found.canonical_etypes == graph.canonical_etypes
    found.validate()


@pytest.mark.parametrize("name", AWKWARD)
def test_large_and_awkward_graphs(name: str) -> None:
    graph = AWKWARD[name]()
    there = edges_of(graph)
    gone, come = there[::2], there[::3] + there[1::5]
    found = edited(
        graph,
        add=by_type(graph, come),
        remove=by_type(graph, gone),
        add_nodes=dict.fromkeys(graph.ntype_names, 3),
    )
    found.validate()
    left = set(gone)
    assert edges_of(found) == expected([e for e in there if e not in left], [], come, "all")


def test_parallel_edges_go_together_or_one_by_one() -> None:
    graph, twice = library(), {"writes": torch.tensor([[1], [2]])}
    assert edges_of(edited(graph, remove=twice))[:2] == [(0, 0, 0), (0, 2, 3)]
    one = edited(graph, remove=twice, parallel="each")
    assert edges_of(one)[:3] == [(0, 0, 0), (0, 1, 2), (0, 2, 3)]
    both = {"writes": torch.tensor([[1, 1], [2, 2]])}
    for parallel in ("all", "each"):
        assert edited(graph, remove=both, parallel=parallel).num_edges == 4


def test_ids_in_each_type_stay_when_nodes_come() -> None:
    graph = library()
    found = edited(graph, add_nodes={"author": 2}, add={"writes": np.array([[4], [0]])})
    assert found.node_offsets == (0, 5, 9)
    assert edges_of(found) == [*edges_of(graph), (0, 4, 0)]


@pytest.mark.parametrize("key", ["writes", ("author", "writes", "paper"), "author|writes|paper"])
def test_edge_types_have_names(key) -> None:
    found = edited(library(), add={key: torch.tensor([[0], [3]])})
    assert edges_of(found)[-1] == (0, 0, 3)


def test_nothing_to_do_gives_an_equal_graph() -> None:
    graph = library()
    assert edited(graph).fingerprint == graph.fingerprint


def test_relations_that_lose_all_edges_stay() -> None:
    found = edited(library(), remove={"cites": torch.tensor([[0, 3], [1, 3]])})
    assert found.metadata() == library().metadata()


IDS = np.zeros((2, 1), np.int64)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (
            {"remove": {"writes": np.array([[0, 0, 1], [0, 1, 1]])}},
            "remove['writes'] names the edge from 0 to 1, but the graph has none of that type",
        ),
        (
            {"remove": {"writes": np.array([[1] * 3, [2] * 3])}, "parallel": "each"},
            "remove['writes'] names the edge from 1 to 2 3 times, but there are 2",
        ),
        (
            {"remove": {"writes": np.array([[3], [0]])}},
            "remove['writes'][0][0] is 3, but the graph has 3 author nodes (ids 0..2): renumber",
        ),
        ({"add": {"writes": np.array([[0], [4]])}}, "pass add_nodes['paper']=1 or more, or"),
        ({"add": {"writes": np.array([[-1], [0]])}}, "number them from 0"),
        ({"add": {"reads": IDS}}, "add has 'reads', which is no edge type of the graph"),
        ({"add": {"writes": IDS, ("author", "writes", "paper"): IDS}}, "are the same edge type"),
        ({"add": {"writes": np.zeros(3, np.int64)}}, "give ids [2, n]"),
        ({"add": {"writes": np.zeros((2, 1))}}, "ids must be int16, int32 or int64"),
        ({"add": {"writes": [[0], [0]]}}, "give ids [2, n]"),
        ({"add_nodes": {"venue": 1}}, "no node type of the graph"),
        ({"add_nodes": {"paper": -1}}, "add_nodes['paper'] is -1"),
        ({"add_nodes": {"paper": 2**31 - 1}}, "num_nodes is 2147483654"),
        ({"parallel": "some"}, "give 'all' or 'each'"),
    ],
    ids=range(14),
)
def test_what_does_not_fit_is_named(edit, message) -> None:
    with pytest.raises(GraphError) as caught:
        edited(library(), **edit)
    assert message in str(caught.value)


def test_a_graph_whose_edge_types_join_several_types_is_refused() -> None:
    graph = HeteroGraph(np.array([0, 1]), np.array([1, 0]), ntype=np.array([0, 1]), num_etypes=1)
    with pytest.raises(GraphError, match="call canonicalize"):
        edited(graph, add={"0": IDS})
