"""The indexes against plain Python, NumPy against C++, and what the words promise."""

import gc
import math
import threading
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hetune.variants.errors import CompileError, GraphError, InputError
from hetune.variants.graph import index_native
from hetune.variants.graph.cuts import (
    block_count,
    block_order,
    node_blocks,
    num_hubs,
    row_groups,
)
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.index import GraphIndex
from hetune.variants.graph.row_groups import RowGroups, block_counts, node_type_groups
from hetune.variants.graph.small_index import FIELDS, KINDS, SMALL

from ._indexes import ARRAYS, assert_same, by_numpy, everything, step_by_step


def random_graph(
    edges: int, nodes: int, etypes: int, ntypes: int = 1, seed: int = 0, skew: float = 2.0
) -> HeteroGraph:
    rng = np.random.default_rng(seed)
    sizes = rng.multinomial(nodes, np.full(ntypes, 1 / ntypes))
    src, dst = ((nodes * rng.random(edges) ** skew).astype(np.int64) for _ in range(2))
    return HeteroGraph(
        src,
        dst,
        (etypes * rng.random(edges) ** skew).astype(np.int64),
        np.repeat(np.arange(ntypes), sizes),
        num_nodes=nodes,
        num_etypes=etypes,
        num_ntypes=ntypes,
    )


def typed_edges(edges: list[tuple[int, int, int]], **counts: int) -> HeteroGraph:
    """From (src, dst, etype) triples."""
    src, dst, etype = np.array(edges, dtype=np.int64).reshape(-1, 3).T.copy()
    return HeteroGraph(src, dst, etype, **counts)


def hub() -> HeteroGraph:
    rng = np.random.default_rng(3)
    dst = np.where(rng.random(40_000) < 0.5, 17, rng.integers(0, 3000, 40_000))
    etype = rng.integers(0, 7, 40_000)
    return HeteroGraph(rng.integers(0, 3000, 40_000), dst, etype, num_nodes=3000, num_etypes=7)


AWKWARD = {
    "nothing": lambda: typed_edges([], num_nodes=0, num_etypes=0),
    "no edges": lambda: typed_edges([], num_nodes=5, num_etypes=3),
    "one edge": lambda: typed_edges([(1, 0, 2)], num_nodes=2, num_etypes=4),
    "one node": lambda: typed_edges([(0, 0, 1), (0, 0, 0), (0, 0, 1)]),
    "one relation": lambda: random_graph(500, 60, 1),
    "duplicates": lambda: random_graph(3000, 6, 2),
    "thousands of relations": lambda: random_graph(4000, 300, 5000, ntypes=3),
    "more nodes than edges": lambda: random_graph(50, 200_000, 3, ntypes=4),
    "several threads": lambda: random_graph(80_000, 9000, 40, ntypes=5),
    "hub": hub,
}


def _graph(draw: st.DrawFn) -> HeteroGraph:
    nodes, etypes = draw(st.integers(1, 40)), draw(st.integers(1, 9))
    edge = st.tuples(*(st.integers(0, n - 1) for n in (nodes, nodes, etypes)))
    edges = np.array(draw(st.lists(edge, max_size=60)), dtype=np.int64).reshape(-1, 3)
    ntype = sorted(draw(st.lists(st.integers(0, 3), min_size=nodes, max_size=nodes)))
    src, dst, etype = edges.T.copy()
    return HeteroGraph(src, dst, etype, np.array(ntype), num_etypes=etypes, num_ntypes=4)


graphs = st.composite(_graph)()


@pytest.fixture(params=AWKWARD, ids=str)
def graph(request: pytest.FixtureRequest) -> HeteroGraph:
    return AWKWARD[request.param]()


def assert_numpy_equals_native(graph: HeteroGraph, relations: tuple[int, ...] | None) -> None:
    native = everything(GraphIndex.of(graph, relations))
    with pytest.MonkeyPatch.context() as patch:
        by_numpy(patch)
        # Nor must it find the whole index that the graph has cached.
        patch.setattr(GraphIndex, "of", classmethod(lambda cls, g, r=None: cls(g, r)))
        assert_same(native, everything(GraphIndex(graph, relations)))


def assert_made_at_once(graph: HeteroGraph) -> None:
    """All arrays of a small graph's index are those that are made step by step."""
    small = GraphIndex(graph).small(groups=31)
    if small is None:
        assert max(graph.num_edges, graph.num_nodes, graph.num_etypes) >= SMALL
        return
    with pytest.MonkeyPatch.context() as patch:
        step_by_step(patch)
        index = GraphIndex(graph)
        found = {name: getattr(index, name) for name in ARRAYS if name in FIELDS}
        found["node_blocks"] = blocks = node_blocks(index, 1024)
        found["block_order"] = block_order(index, 1024)
        assert small.hubs == num_hubs(index, 1024)
        chosen = None, index.nodes_with_edges("src"), index.nodes_with_edges("dst")
        of_nodes = (node_type_groups(graph, 1024, blocks, nodes) for nodes in chosen)
        of_rows = (row_groups(index, space, 1024) for space in ("edge", "dst_pair"))
        for kind, groups in zip(KINDS, (*of_rows, *of_nodes), strict=True):
            found |= {(*kind, part): rows for part, rows in groups._asdict().items()}
    assert_same({name: small.array(name) for name in found}, found)
    assert found.keys() == FIELDS.keys()
    assert small.is_in_order == (found["edge_id"].tolist() == [*range(graph.num_edges)])
    for name, place in FIELDS.items():
        assert small.addresses[place] == small.array(name).data_ptr() or not len(found[name])


def subset(graph: HeteroGraph) -> tuple[int, ...]:
    return tuple(range(0, graph.num_etypes, 2))


def check_against_plain_python(graph: HeteroGraph, relations: tuple[int, ...] | None) -> None:
    """Every array again, from its definition."""
    index = GraphIndex.of(graph, relations)
    edges = list(zip(graph.dst.tolist(), graph.etype.tolist(), graph.src.tolist(), strict=True))
    order = sorted(range(len(edges)), key=edges.__getitem__)
    kept = [
        (position, i)
        for position, i in enumerate(order)
        if relations is None or edges[i][1] in relations
    ]
    chosen = [edges[i] for _, i in kept]
    nodes, etypes = range(graph.num_nodes), range(graph.num_etypes)
    dst_pairs = sorted({(d, t) for d, t, _ in chosen})
    src_pairs = sorted({(t, s) for _, t, s in chosen})
    dst_number, src_number = (
        {pair: i for i, pair in enumerate(pairs)} for pairs in (dst_pairs, src_pairs)
    )
    degree = Counter(d for d, _, _ in chosen)
    expected = {
        "position": [p for p, _ in kept],
        "edge_id": [i for _, i in kept],
        "dst": [d for d, _, _ in chosen],
        "etype": [t for _, t, _ in chosen],
        "src": [s for _, _, s in chosen],
        "indptr": [sum(d < n for d, _, _ in chosen) for n in (*nodes, graph.num_nodes)],
        "in_degree": [degree[n] for n in nodes],
        "csc_indptr": [sum(s < n for _, _, s in chosen) for n in (*nodes, graph.num_nodes)],
        "dst_pair_of_edge": [dst_number[d, t] for d, t, _ in chosen],
        "dst_pair_node": [d for d, _ in dst_pairs],
        "dst_pair_etype": [t for _, t in dst_pairs],
        "dst_pair_count": [sum((d, t) == p for d, t, _ in chosen) for p in dst_pairs],
        "node_dst_pair_indptr": [sum(d < n for d, _ in dst_pairs) for n in range(len(nodes) + 1)],
        "src_pair_of_edge": [src_number[t, s] for _, t, s in chosen],
        "src_pair_node": [s for _, s in src_pairs],
        "src_pair_etype": [t for t, _ in src_pairs],
        "src_pair_etype_ptr": [sum(t < r for t, _ in src_pairs) for r in range(len(etypes) + 1)],
    }
    assert (index.num_edges, index.num_dst_pairs) == (len(chosen), len(dst_pairs))
    assert index.num_src_pairs == len(src_pairs)
    for name, values in expected.items():
        assert getattr(index, name).tolist() == values, name
    stats = index.relation_stats
    assert stats.edges.tolist() == [sum(t == r for _, t, _ in edges) for r in etypes]
    assert stats.src_pairs.tolist() == [len({s for _, t, s in edges if t == r}) for r in etypes]
    assert stats.dst_pairs.tolist() == [len({d for d, t, _ in edges if t == r}) for r in etypes]


def check_groups(groups: RowGroups, etype: torch.Tensor) -> None:
    """Rows are a permutation; groups are runs of one type; blocks cut the groups."""
    rows = groups.rows.long()
    assert sorted(rows.tolist()) == list(range(etype.numel()))
    sizes = torch.diff(groups.group_ptr)
    assert (sizes > 0).all()
    repeated = groups.group_etype.repeat_interleave(sizes.long())
    assert torch.equal(etype[rows], repeated)
    for ptr, end in ((groups.group_ptr, rows.numel()), (groups.block_ptr, groups.num_groups)):
        assert (int(ptr[0]), int(ptr[-1])) == (0, end)
        assert (torch.diff(ptr) >= 0).all()
    assert groups.num_blocks == groups.block_ptr.numel() - 1


@settings(max_examples=60, deadline=None)
@given(graphs)
def test_definitions(graph: HeteroGraph) -> None:
    check_against_plain_python(graph, None)
    check_against_plain_python(graph, subset(graph))


@settings(max_examples=60, deadline=None)
@given(graphs)
def test_numpy_equals_native(graph: HeteroGraph) -> None:
    assert_numpy_equals_native(graph, None)
    assert_numpy_equals_native(graph, subset(graph))
    assert_made_at_once(graph)


def test_awkward_graphs_are_indexed_at_once(graph: HeteroGraph) -> None:
    assert_made_at_once(graph)


@pytest.mark.parametrize("part", ["all", "some", "none"])
def test_awkward_numpy_equals_native(graph: HeteroGraph, part: str) -> None:
    assert_numpy_equals_native(graph, {"all": None, "some": subset(graph), "none": ()}[part])


def test_threads_do_not_matter(graph: HeteroGraph) -> None:
    threads = torch.get_num_threads()
    built = []
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            built.append(everything(GraphIndex(graph)))
    finally:
        torch.set_num_threads(threads)
    assert_same(built[0], built[1])
    assert_same(built[0], built[2])


@pytest.mark.parametrize("block_nodes", [1, 5, 64, 10**6])
def test_node_blocks_are_bounded(graph: HeteroGraph, block_nodes: int) -> None:
    index = GraphIndex.of(graph)
    cuts = node_blocks(index, block_nodes).long()
    nodes = graph.num_nodes
    assert (int(cuts[0]), int(cuts[-1])) == (0, nodes)
    sizes = torch.diff(cuts)
    assert (sizes > 0).all()
    count = block_count(index, block_nodes)
    most = 2 * -(-nodes // count)
    assert (sizes <= most).all()
    work = 4 * torch.arange(nodes + 1) + index.indptr + 2 * index.node_dst_pair_indptr
    share = -(-int(work[-1]) // count)
    of_block = torch.diff(work[cuts])
    spare = max(share // 64, int(work[-1]) // max(nodes, 1)) + 8
    assert (of_block[sizes > 1] <= share + spare).all()
    # Two neighbours that fit together would have been one block.
    together, both = of_block[1:] + of_block[:-1], sizes[1:] + sizes[:-1]
    assert ((together > share) | (both > most)).all()
    assert node_blocks(index, block_nodes) is node_blocks(index, block_nodes)


@pytest.mark.parametrize(
    ("nodes", "block_nodes", "blocks"),
    [
        (0, 256, 1),
        (7, 256, 1),
        (20, 256, 2),  # blocks of eight nodes or more
        (64, 256, 8),
        (2000, 256, 8),
        (2100, 256, 16),  # it takes nine
        (2100, 1024, 8),
        (2100, 4096, 8),
        (20, 1, 20),
        (65_600, 256, 264),
        (65_600, math.inf, 1),
    ],
)
def test_blocks_come_in_eights_where_there_is_enough_to_share(nodes, block_nodes, blocks) -> None:
    assert block_counts(nodes, np.array([block_nodes])).tolist() == [blocks]


def test_sizes_of_blocks_that_make_as_many_share_what_is_built(graph: HeteroGraph) -> None:
    index = GraphIndex.of(graph)
    assert node_blocks(index, 10**6) is node_blocks(index, 10**7)
    assert row_groups(index, "dst_pair", 10**6) is row_groups(index, "dst_pair", 10**7)


@pytest.mark.parametrize("space", ["edge", "dst_pair", "src_pair"])
def test_rows_are_grouped_by_type(graph: HeteroGraph, space: str) -> None:
    index = GraphIndex.of(graph)
    etype = index.etype if space == "edge" else getattr(index, f"{space}_etype")
    groups = row_groups(index, space, None)
    check_groups(groups, etype)
    assert groups.rows.tolist() == sorted(range(etype.numel()), key=etype.tolist().__getitem__)
    assert (torch.diff(groups.group_ptr) <= 512).all()
    rows_of_block = torch.diff(groups.group_ptr[groups.block_ptr.long()])
    assert (rows_of_block > 0).all()
    assert (rows_of_block < 1024).all()
    assert groups.num_blocks <= max(etype.numel() // 512 + 1, 8)
    share = -(-etype.numel() // (8 * 16)) * 16
    assert (torch.diff(groups.group_ptr) <= max(share, 16)).all()


def test_indexes_of_one_graph_share_their_blocks(graph: HeteroGraph) -> None:
    part = GraphIndex.of(graph, tuple(range(0, graph.num_etypes, 2)))
    cuts = node_blocks(part, 5)
    assert cuts is node_blocks(GraphIndex.of(graph), 5)
    assert row_groups(part, "dst_pair", 5).num_blocks == cuts.numel() - 1


@pytest.mark.parametrize("block_nodes", [3, 64])
@pytest.mark.parametrize("space", ["edge", "dst_pair"])
def test_rows_are_grouped_inside_node_blocks(
    graph: HeteroGraph, space: str, block_nodes: int
) -> None:
    index = GraphIndex.of(graph)
    etype = index.etype if space == "edge" else index.dst_pair_etype
    node = index.dst if space == "edge" else index.dst_pair_node
    cuts = node_blocks(index, block_nodes)
    groups = row_groups(index, space, block_nodes)
    check_groups(groups, etype)
    assert groups.num_blocks == cuts.numel() - 1
    block = torch.searchsorted(cuts, node, right=True) - 1
    keys = list(zip(block.tolist(), etype.tolist(), range(etype.numel()), strict=True))
    assert groups.rows.tolist() == [row for _, _, row in sorted(keys)]
    rows_per_block = torch.diff(groups.group_ptr[groups.block_ptr.long()])
    assert rows_per_block.tolist() == block.bincount(minlength=groups.num_blocks).tolist()
    assert groups.num_groups == len({key[:2] for key in keys})


def test_nodes_are_grouped_by_type(graph: HeteroGraph) -> None:
    cuts = node_blocks(GraphIndex.of(graph), 64)
    for blocks in (cuts, None):
        groups = node_type_groups(graph, 64, blocks)
        check_groups(groups, graph.ntype)
        bounds = groups.group_ptr[groups.block_ptr.long()]
        if blocks is not None:
            assert torch.equal(bounds, cuts)
        assert (torch.diff(bounds) <= 128).all()


def test_a_hub_is_a_block_of_its_own() -> None:
    index = GraphIndex.of(hub())
    cuts = node_blocks(index, 64).tolist()
    assert 17 in cuts
    assert 18 in cuts


@pytest.mark.parametrize("block_nodes", [1, 5, 64])
def test_every_block_has_its_turn(graph: HeteroGraph, block_nodes: int) -> None:
    index = GraphIndex.of(graph)
    order = block_order(index, block_nodes)
    blocks = node_blocks(index, block_nodes).numel() - 1
    assert sorted(order.tolist()) == list(range(blocks))
    assert order is block_order(GraphIndex.of(graph, ()), block_nodes)


def test_hubs_begin_first_and_the_largest_before_all() -> None:
    rng = np.random.default_rng(0)
    hubs = np.repeat([90, 33, 60], [700, 2000, 1200])
    dst = np.concatenate([hubs, rng.integers(0, 100, 300)])
    index = GraphIndex.of(HeteroGraph(rng.integers(0, 100, dst.size), dst, num_nodes=100))
    assert num_hubs(index, 10) == 3
    assert num_hubs(GraphIndex.of(random_graph(1000, 50, 6)), 10) == 0
    first_node = node_blocks(index, 10)[block_order(index, 10).long()].tolist()
    assert first_node[:3] == [33, 60, 90]
    assert first_node[3:] == sorted(first_node[3:])


def test_indexes_are_shared_and_accounted_for() -> None:
    graph = random_graph(1000, 50, 6)
    index = GraphIndex.of(graph, (4, 1, 1))
    assert index is GraphIndex.of(graph, (1, 4))
    assert index.relations == (1, 4)
    assert index.graph is graph
    assert GraphIndex.of(graph) is GraphIndex.of(graph)
    assert GraphIndex.of(graph) is not index
    assert index.nbytes == 0
    assert index.indptr is index.indptr
    assert index.build_seconds.keys() == {"position", "indptr"}
    assert all(seconds >= 0 for seconds in index.build_seconds.values())
    parts = (index.position, index.edge_id, index.src, index.dst, index.etype)
    pairs = (index.src_pair_of_edge, index.src_pair_node, index.src_pair_etype)
    shift = 4 * graph.num_etypes  # between the numbers of pairs here and in the whole graph
    assert index.nbytes == sum(t.nbytes for t in (*parts, *pairs, index.indptr)) + shift
    whole = GraphIndex.of(graph)
    held = whole.nbytes  # of a small graph, all that kernels may read, asked for or not
    assert held > 4 * 12 * graph.num_edges
    assert len(whole.edge_id) == len(whole.dst_pair_of_edge)
    assert whole.nbytes == held


def test_an_index_of_some_relations_keeps_no_more_than_was_asked_for() -> None:
    index = GraphIndex.of(graph := random_graph(1000, 50, 6), (1, 4))
    assert index.num_dst_pairs > 0
    assert index.build_seconds.keys() == {"position", "dst_pairs"}
    assert index.nbytes == 4 * (index.num_edges + 3 * index.num_dst_pairs + 1)
    whole = GraphIndex.of(graph)
    assert "dst_pair_of_edge" not in whole.build_seconds


def test_the_graph_is_freed_with_its_indexes() -> None:
    graph = random_graph(100, 10, 2)
    index = GraphIndex.of(graph)
    gc.disable()
    try:
        del graph
        assert index.src.numel() == 100
        with pytest.raises(GraphError, match="has been freed: keep a reference"):
            index.graph  # noqa: B018
    finally:
        gc.enable()


def test_built_once_by_many_threads() -> None:
    graph = random_graph(20_000, 500, 30)
    start = threading.Barrier(4)
    seen: list[tuple[int, ...]] = []

    def ask(relations: tuple[int, ...] | None) -> None:
        start.wait()
        index = GraphIndex.of(graph, relations)
        seen.append((id(index.src), id(index.dst_pair_node), id(GraphIndex.of(graph).src)))

    asked = (None, None, (1, 2), (1, 2))
    threads = [threading.Thread(target=ask, args=(relations,)) for relations in asked]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert len(seen) == 4
    assert len(set(seen)) == 2


@pytest.mark.parametrize("relations", [(-1,), (0, 3), (7,)])
def test_unknown_relations_are_refused(relations: tuple[int, ...]) -> None:
    graph = random_graph(10, 5, 3)
    with pytest.raises(GraphError, match="the graph has relations 0 to 2"):
        GraphIndex.of(graph, relations)


def test_what_cannot_be_grouped_is_refused() -> None:
    index = GraphIndex.of(random_graph(10, 5, 3))
    with pytest.raises(InputError, match="give at least one node per block"):
        node_blocks(index, 0)
    with pytest.raises(InputError, match="the spaces are 'edge'"):
        row_groups(index, "node", None)
    with pytest.raises(InputError, match="give block_nodes=None"):
        row_groups(index, "src_pair", 64)


def test_without_a_compiler_the_error_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise CompileError("no compiler: install one")

    index_native._function.cache_clear()
    monkeypatch.setattr(index_native, "library", refuse)
    with pytest.raises(CompileError, match="install one"):
        GraphIndex.of(random_graph(60, 12, 3)).src  # noqa: B018


def test_out_of_memory_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_native, "_function", lambda name, count: lambda *args: -1)
    with pytest.raises(MemoryError, match="while indexing a graph"):
        index_native.select(torch.zeros(3, dtype=torch.int32), torch.ones(1, dtype=torch.bool), 3)


def test_lent_indexes_are_there_as_long_as_somebody_uses_them() -> None:
    graph = random_graph(40_000, 3_000, 30)
    whole, some = GraphIndex.of(graph), GraphIndex.of(graph, (1, 4, 9))
    expected = everything(GraphIndex.of(random_graph(40_000, 3_000, 30), (1, 4, 9)))
    assert_same(everything(some), expected)
    stats = whole.relation_stats
    used, before = whole.src, whole.nbytes
    groups = row_groups(whole, "edge", None)
    builds = whole.retention.builds
    assert builds == whole.builds + some.builds

    some.retention.release()  # of all indexes of the graph, whichever is asked
    assert whole.relation_stats is stats
    assert row_groups(whole, "edge", None).rows is groups.rows
    assert not whole.is_built("order")  # most of its columns are gone, and `src` is not
    assert used.nbytes + groups.rows.nbytes <= whole.nbytes < before / 2
    assert whole.retention.builds == builds
    assert_same(everything(some), expected)
    assert torch.equal(whole.src, used)
    assert whole.is_built("order")
    assert whole.retention.builds > builds

    held = whole.nbytes
    whole.retention.release()  # what was built again has shown that it is needed
    assert whole.nbytes == held


def test_what_is_made_at_once_goes_with_the_last_who_uses_it() -> None:
    graph = random_graph(10_000, 3_000, 30)
    index = GraphIndex(graph)
    used, src = index.small(), index.src.clone()
    assert used is not None
    index.release()
    assert index.small() is used
    assert index.nbytes >= used.nbytes
    del used
    assert index.nbytes < src.nbytes
    assert torch.equal(index.src, src)  # made again, and kept
    assert index.small() is not None


def test_indexes_are_lent_while_others_build() -> None:
    graph = random_graph(40_000, 3_000, 30)
    expected = GraphIndex(graph).src_pair_of_edge
    start = threading.Barrier(4)
    seen: list[bool] = []

    def ask() -> None:
        start.wait()
        for _ in range(20):
            seen.append(torch.equal(GraphIndex.of(graph).src_pair_of_edge, expected))
            with GraphIndex.of(graph)._lock:  # again and again, which `IndexRetention` does not
                GraphIndex.of(graph).release()

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert seen == [True] * 80
