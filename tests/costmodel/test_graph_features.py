"""Features against their definitions, C++ against NumPy, and what the documents promise."""

import math
import re
from collections import Counter, OrderedDict
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings

from hetune.costmodel.features import graph_native
from hetune.costmodel.features.graph import CACHED_ROWS, NAMES, graph_features, missing_share
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.index import GraphIndex
from hetune.variants.graph.state import GraphSlot
from hetune.variants.testing.graphs import AWKWARD
from hetune.variants.testing.strategies import graphs

from . import _graph_numpy

PAGE = Path(__file__).resolve().parents[2] / "docs" / "features.md"
WINDOW = 1 << 13


def random_graph(edges: int, nodes: int, etypes: int, seed: int = 0) -> HeteroGraph:
    """Hubs on both sides, and relations of unequal sizes."""
    rng = np.random.default_rng(seed)
    src, dst = ((nodes * rng.random(edges) ** 3).astype(np.int64) for _ in range(2))
    etype = (etypes * rng.random(edges) ** 2).astype(np.int64)
    return HeteroGraph(src, dst, etype, num_nodes=nodes, num_etypes=etypes)


EMPTY = np.empty(0, np.int64)
GRAPHS = {
    **AWKWARD,
    "no types either": lambda: HeteroGraph(EMPTY, EMPTY, num_nodes=0, num_etypes=0),
    "no room between windows": lambda: random_graph(WINDOW, 50, 3),
    "one edge more": lambda: random_graph(WINDOW + 1, 2000, 3),
    "many windows": lambda: random_graph(11 * WINDOW + 77, 5000, 40),
    "several threads": lambda: random_graph(140_000, 30_000, 7),
}


@pytest.fixture(scope="module", params=GRAPHS, ids=str)
def graph(request: pytest.FixtureRequest) -> HeteroGraph:
    return GRAPHS[request.param]()


def features_of(implementation, graph: HeteroGraph) -> dict[str, float]:
    found = implementation.features_of(GraphIndex.of(graph), graph.num_ntypes)
    return dict(zip(NAMES, found.tolist(), strict=True))


def share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def distribution(counts: list[int]) -> dict[str, float]:
    """Of the counts above 0, by the formulas of the page, the slow way."""
    from scipy import stats

    x = np.array(sorted(c for c in counts if c), np.float64)
    if not x.size:
        return dict.fromkeys(
            ("mean", "p50", "p90", "p99", "max", "gini", "cv", "top_share", "max_share"), 0.0
        )
    top = math.ceil(x.size / 100)
    return {
        "mean": x.mean(),
        **{f"p{p}": x[math.ceil(x.size * p / 100) - 1] for p in (50, 90, 99)},
        "max": x.max(),
        "gini": stats.rankdata(x) @ x * 2 / (x.size * x.sum()) - (x.size + 1) / x.size,
        "cv": stats.variation(x),
        "top_share": x[-top:].sum() / x.sum(),
        "max_share": x.max() / x.sum(),
    }


def looked_at(rows: list[int]) -> list[tuple[int, list[int]]]:
    """Beginnings and rows of the windows that stand for the whole walk."""
    windows = math.ceil(len(rows) / WINDOW)
    chosen = min(windows, max(4, math.ceil(windows / 8)))
    begins = [(2 * c + 1) * windows // (2 * chosen) * WINDOW for c in range(chosen)]
    return [(begin, rows[begin : begin + WINDOW]) for begin in begins]


def asked_for(rows: list[int], size: int) -> tuple[int, int]:
    """Distinct rows of each window of `size` steps, added up, and steps."""
    parts = [part[i : i + size] for _, part in looked_at(rows) for i in range(0, len(part), size)]
    return sum(len(set(part)) for part in parts), sum(map(len, parts))


def near(rows: list[int]) -> float:
    parts = [part for _, part in looked_at(rows)]
    jumps = [abs(a - b) for part in parts for a, b in pairwise(part)]
    return share(sum(jump <= 16 for jump in jumps), len(jumps))


def misses(rows: list[int], cached: int) -> float:
    """How fast the rows asked for grow with the window, where they are as many as are cached."""
    distinct = len(set(rows))
    if distinct <= cached:
        return share(distinct, len(rows))
    windows = [1 << k for k in range(14) if 1 << k < len(rows)]
    asked = [min(w * share(*asked_for(rows, w)), distinct) for w in windows]
    curve = [*zip(windows, np.maximum.accumulate(asked), strict=True), (len(rows), distinct)]
    known = [((f + g) / 2, (g - f) / (v - w)) for (w, f), (v, g) in pairwise(curve)]
    middles, slopes = zip(*known, strict=True)
    return max(float(np.interp(np.log(cached), np.log(middles), slopes)), distinct / len(rows))


def expected(graph: HeteroGraph) -> dict[str, float]:
    """Every feature again, from the edges."""
    from scipy import stats

    edges = sorted(zip(graph.dst.tolist(), graph.etype.tolist(), graph.src.tolist(), strict=True))
    src_pairs, dst_pairs = sorted({(t, s) for _, t, s in edges}), sorted({e[:2] for e in edges})
    sizes = Counter(t for _, t, _ in edges)
    sides = [Counter(t for t, _ in src_pairs), Counter(t for _, t in dst_pairs)]
    hybrid = sum(min(sides[0][t], sides[1][t]) for t in sizes)
    leaving, entering = Counter(s for _, _, s in edges), Counter(d for d, _, _ in edges)
    found: dict[str, float] = {
        "num_nodes": graph.num_nodes,
        "num_edges": len(edges),
        "num_ntypes": graph.num_ntypes,
        "num_etypes": graph.num_etypes,
        "used_etypes": len(sizes),
        "src_pairs": len(src_pairs),
        "dst_pairs": len(dst_pairs),
        "hybrid_rows": hybrid,
        "sources": len(leaving),
        "destinations": len(entering),
        "isolated_nodes": graph.num_nodes - len({*leaving, *entering}),
        "src_pairs_per_edge": share(len(src_pairs), len(edges)),
        "dst_pairs_per_edge": share(len(dst_pairs), len(edges)),
        "hybrid_rows_per_edge": share(hybrid, len(edges)),
        "src_side_edge_share": share(
            sum(n for t, n in sizes.items() if sides[0][t] < sides[1][t]), len(edges)
        ),
        "etypes_per_source": share(len(src_pairs), len(leaving)),
        "etypes_per_destination": share(len(dst_pairs), len(entering)),
    }
    for name, counts in (("in", entering), ("out", leaving)):
        for what, value in distribution(list(counts.values())).items():
            found[f"{name}_degree_{what.replace('max_share', 'hub_share')}"] = value
    for what, value in distribution(list(sizes.values())).items():
        found[f"relation_edges_{what}"] = value
    found["effective_relations"] = math.exp(stats.entropy([*sizes.values()])) if sizes else 0.0
    types = [t for _, t in dst_pairs]
    for size in (256, 4096):
        distinct, pairs = asked_for(types, size)
        found[f"dst_pairs_per_etype_{size}"] = share(pairs, distinct)
    sources = [s for _, _, s in edges]
    number = {pair: i for i, pair in enumerate(src_pairs)}
    pair_of_edge = [number[t, s] for _, t, s in edges]
    found["near_gathers"] = near(sources)
    for size in CACHED_ROWS:
        found[f"src_misses_{size}"] = misses(sources, size)
        found[f"src_pair_misses_{size}"] = misses(pair_of_edge, size)
    return {name: found[name] for name in NAMES}


EXPECTED = GraphSlot[None, dict[str, float]]()


@pytest.mark.parametrize("implementation", [graph_native, _graph_numpy])
def test_features_are_what_the_page_defines(implementation, graph):
    defined = graph.state.of(EXPECTED, None, lambda: expected(graph))
    assert features_of(implementation, graph) == pytest.approx(defined, rel=1e-9, abs=1e-12)


@settings(max_examples=40, deadline=None)
@given(graphs())
def test_features_of_any_small_graph(graph):
    native = features_of(graph_native, graph)
    assert native == pytest.approx(expected(graph), rel=1e-9, abs=1e-12)
    assert native == pytest.approx(features_of(_graph_numpy, graph), rel=1e-9, abs=1e-12)


def test_features_of_a_graph_small_enough_to_check_by_hand():
    # Node 0 has three edges in, of two types; node 3 none at all.
    graph = HeteroGraph(
        np.array([0, 1, 2, 0]), np.array([0, 0, 0, 1]), np.array([0, 1, 1, 1]), num_nodes=4
    )
    found = dict(zip(NAMES, graph_features(graph).tolist(), strict=True))
    assert (found["src_pairs"], found["dst_pairs"], found["hybrid_rows"]) == (4, 3, 3)
    assert (found["sources"], found["destinations"], found["isolated_nodes"]) == (3, 2, 1)
    assert (found["in_degree_mean"], found["in_degree_max"], found["in_degree_p50"]) == (2, 3, 1)
    assert found["in_degree_gini"] == 0.25
    assert found["in_degree_cv"] == 0.5
    assert found["relation_edges_max_share"] == 0.75
    assert found["effective_relations"] == pytest.approx(4 / 3**0.75)
    assert found["etypes_per_destination"] == 1.5
    assert found["dst_pairs_per_etype_256"] == 1.5
    assert found["near_gathers"] == 1
    assert found["src_misses_64"] == 0.75


def test_all_features_are_finite_and_none_is_negative(graph):
    found = graph_features(graph)
    assert found.shape == (len(NAMES),)
    assert found.dtype == np.float64
    assert np.isfinite(found).all()
    assert (found >= 0).all()
    shares = [i for i, name in enumerate(NAMES) if re.search("share|gini|misses|near", name)]
    assert (found[shares] <= 1).all()


def test_the_order_of_the_edges_does_not_matter(graph):
    order = torch.randperm(graph.num_edges, generator=torch.Generator().manual_seed(1))
    shuffled = HeteroGraph(
        graph.src[order],
        graph.dst[order],
        graph.etype[order],
        graph.ntype,
        num_etypes=graph.num_etypes,
        num_ntypes=graph.num_ntypes,
    )
    np.testing.assert_array_equal(graph_features(shuffled), graph_features(graph))


def test_the_number_of_threads_does_not_matter():
    graph, before = GRAPHS["several threads"](), torch.get_num_threads()
    try:
        found = []
        for threads in (1, 2, 5):
            torch.set_num_threads(threads)
            found.append(features_of(graph_native, graph))
    finally:
        torch.set_num_threads(before)
    assert found[0] == found[1] == found[2]


def test_features_are_computed_once_and_cannot_be_written_to():
    graph = AWKWARD["hub"]()
    found = graph_features(graph)
    assert graph_features(graph) is found
    with pytest.raises(ValueError, match="read-only"):
        found[0] = 1


# Misses against a cache.


def lru_misses(rows: list[int], size: int) -> float:
    """Share of gathers whose row is not among the `size` rows used last."""
    held: OrderedDict[int, None] = OrderedDict()
    missed = 0
    for row in rows:
        if row in held:
            held.move_to_end(row)
            continue
        missed += 1
        held[row] = None
        if len(held) > size:
            held.popitem(last=False)
    return share(missed, len(rows))


def chain() -> HeteroGraph:
    """Neighbours are near each other, as in a road network."""
    nodes = torch.arange(5000)
    neighbours = torch.stack([torch.roll(nodes, distance) for distance in (1, -1, 20)])
    return HeteroGraph(neighbours.reshape(-1), nodes.repeat(3), num_nodes=5000)


@pytest.mark.parametrize("build", [*map(GRAPHS.get, ("source hub", "many windows")), chain])
def test_misses_are_nearly_those_of_a_cache_that_drops_what_was_used_longest_ago(build):
    graph = build()
    index, found = GraphIndex.of(graph), features_of(graph_native, graph)
    errors = [
        abs(found[f"{table}_misses_{size}"] - lru_misses(rows.tolist(), size))
        for table, rows in (("src", index.src), ("src_pair", index.src_pair_of_edge))
        for size in CACHED_ROWS
    ]
    assert max(errors) < 0.1
    assert np.mean(errors) < 0.02


def test_missing_share_goes_through_the_features_and_falls():
    graph = GRAPHS["many windows"]()
    found = graph_features(graph)
    named = dict(zip(NAMES, found.tolist(), strict=True))
    for table in ("src", "src_pair"):
        at = missing_share(found, table, np.array(CACHED_ROWS))
        assert at.tolist() == [named[f"{table}_misses_{rows}"] for rows in CACHED_ROWS]
        between = missing_share(found, table, np.geomspace(0.5, 2**20, 50))
        assert between[0] == 1
        assert (np.diff(between) <= 0).all()
    assert missing_share(found, "src", np.full((2, 3), 100.0)).shape == (2, 3)


def test_nothing_is_missed_where_nothing_is_gathered():
    found = graph_features(GRAPHS["no edges"]())
    assert missing_share(found, "src", np.array([0, 1, 10_000])).tolist() == [0, 0, 0]


# The page.


def test_every_feature_is_documented_and_nothing_else():
    page = PAGE.read_text(encoding="utf-8").split("## Launch features")[0]
    cells = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", page, re.M)
    named = [name for cell in cells for name in re.findall(r"\w+", cell)]
    assert sorted(named) == sorted(NAMES)
    assert len(set(NAMES)) == len(NAMES)
