"""Edited graphs: the edges that are left and come, their order, and indexes as if built anew."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hetune.variants.errors import GraphError
from hetune.variants.graph import edit as edit_module
from hetune.variants.graph import (
    edited,
    from_edge_index_dict,
    index_native,
)
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.index import GraphIndex
from hetune.variants.testing.graphs import AWKWARD
from hetune.variants.testing.strategies import graphs

from . import _index_numpy as index_numpy
from ._indexes import assert_same, by_numpy, everything


@pytest.fixture(autouse=True, scope="module")
def merged() -> Iterator[None]:
    """Small graphs, too, get merged indexes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(edit_module, "_MERGE_COST", 0)
        yield


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


def assert_as_built_anew(graph: HeteroGraph) -> None:
    """That nothing tells it from a graph that was made of the same arrays."""
    anew = HeteroGraph(
        *(ids.clone() for ids in (graph.src, graph.dst, graph.etype, graph.ntype)),
        num_ntypes=graph.num_ntypes,
        ntype_names=graph.ntype_names,
        etype_names=graph.etype_names,
        canonical_etypes=graph.canonical_etypes,
    )
    assert graph.fingerprint == anew.fingerprint
    assert_same(everything(GraphIndex.of(graph)), everything(GraphIndex.of(anew)))
    some = tuple(range(0, graph.num_etypes, 2))
    parts = (GraphIndex.of(g, some) for g in (graph, anew))
    assert_same(*map(everything, parts))


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
@given(edits(), st.booleans())
def test_edges_and_indexes_are_those_of_the_result(edit, is_indexed: bool) -> None:
    graph, gone, come, add_nodes, parallel = edit
    if is_indexed:
        GraphIndex.of(graph).edge_id  # noqa: B018
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
    assert GraphIndex.of(found).is_built("order") == GraphIndex.of(graph).is_built("order")
    assert_as_built_anew(found)


@pytest.mark.parametrize("name", AWKWARD)
@pytest.mark.parametrize("native", [True, False], ids=["native", "numpy"])
def test_large_and_awkward_graphs(name: str, native: bool, monkeypatch) -> None:
    if not native:
        by_numpy(monkeypatch)
    graph = AWKWARD[name]()
    GraphIndex.of(graph).edge_id  # noqa: B018
    there = edges_of(graph)
    found = edited(
        graph,
        add=by_type(graph, there[::3] + there[1::5]),
        remove=by_type(graph, there[::2]),
        add_nodes=dict.fromkeys(graph.ntype_names, 3),
    )
    assert_as_built_anew(found)


def test_many_edges_in_several_threads() -> None:
    rng = np.random.default_rng(0)
    src, dst, etype = (rng.integers(0, n, 100_000) for n in (3000, 3000, 20))
    graph = HeteroGraph(src, dst, etype, num_nodes=3000, num_etypes=20)
    GraphIndex.of(graph).edge_id  # noqa: B018
    gone = rng.choice(100_000, 5000, replace=False)
    remove = {str(r): np.stack((src, dst))[:, gone[etype[gone] == r]] for r in range(20)}
    add = {str(r): rng.integers(0, 3007, (2, 300)) for r in range(0, 20, 2)}
    assert_as_built_anew(edited(graph, add=add, remove=remove, add_nodes={"node": 7}))


def test_what_few_edges_change_is_merged(monkeypatch) -> None:
    monkeypatch.setattr(edit_module, "_MERGE_COST", 16)
    graph = AWKWARD["hub of thousands of edges"]()
    order, (_, *ends) = GraphIndex.of(graph).edge_id, edges_of(graph)[0]
    assert order.numel() == graph.num_edges
    edge = np.array(ends).reshape(2, 1)
    few = edited(graph, add={"0": edge})
    many = edited(graph, add={"0": np.repeat(edge, graph.num_edges, axis=1)})
    assert GraphIndex.of(few).is_built("order")
    assert not GraphIndex.of(many).is_built("order")


def test_what_is_lent_is_merged_all_the_same() -> None:
    rng = np.random.default_rng(0)
    src, dst, etype = (rng.integers(0, n, 30_000) for n in (500, 500, 5))
    graph = HeteroGraph(src, dst, etype, num_nodes=500, num_etypes=5)
    index = GraphIndex.of(graph)
    assert index.edge_id.numel() == graph.num_edges
    index.retention.release()
    assert not index.is_built("order")
    found = edited(graph, add={"0": np.array([[3], [4]])})
    assert GraphIndex.of(found).is_built("order")
    assert_as_built_anew(found)
    held = GraphIndex.of(found).nbytes
    GraphIndex.of(found).retention.release()  # without effect: more edits may follow
    assert GraphIndex.of(found).nbytes == held


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
    assert not GraphIndex.of(graph).is_built("order")


def test_relations_that_lose_all_edges_stay() -> None:
    found = edited(library(), remove={"cites": torch.tensor([[0, 3], [1, 3]])})
    assert found.metadata() == library().metadata()
    assert_as_built_anew(found)


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


def test_the_primitives_agree() -> None:
    rng = np.random.default_rng(1)
    for count, removals, additions in ((0, 0, 3), (40, 0, 0), (40, 40, 5), (90_000, 700, 900)):
        values = torch.from_numpy(rng.integers(0, 50, count).astype(np.int32))
        numbers = torch.from_numpy(rng.permutation(50).astype(np.int32))
        removed = np.sort(rng.choice(count, removals, replace=False)).astype(np.int32)
        at = np.sort(rng.integers(0, count + 1, additions)).astype(np.int32)
        come = torch.arange(additions, dtype=torch.int32)
        given = torch.from_numpy(removed), torch.from_numpy(at)
        for table in (None, numbers):
            made = [m.edit_column(values, *given, come, table) for m in (index_native, index_numpy)]
            assert torch.equal(*made)
        spans = [torch.from_numpy(np.sort(rng.integers(0, count + 1, 9))) for _ in range(2)]
        spans = torch.minimum(*spans), torch.maximum(*spans)
        column = values.sort().values
        keys = tuple(torch.from_numpy(rng.integers(-1, 101, 9)) for _ in range(2))
        for major in (None, column):
            for above in (False, True):
                found = [
                    m.bound(major, column, keys, spans, above) for m in (index_native, index_numpy)
                ]
                assert torch.equal(*found)
        assert torch.equal(*[m.renumber(count, *given) for m in (index_native, index_numpy)])
