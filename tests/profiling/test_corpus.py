"""Recipes: every property is what its option says, and what is wrong is said clearly."""

import json
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from hetune.profiling.corpus import (
    FAMILIES,
    KINDS,
    Spanning,
    build,
    canonical,
    recipe,
    size_of,
    whole,
    with_edges_reversed,
)
from hetune.profiling.units import GraphRecipe
from hetune.variants.errors import CampaignError, GraphError
from hetune.variants.graph import HeteroGraph, load
from hetune.variants.graph.index import GraphIndex
from hetune.variants.graph.subsample import subsample

TYPED = {"nodes": 60, "edges": 500, "etypes": 7, "ntypes": 3, "seed": 3}


def made(kind: str, **options) -> HeteroGraph:
    graph = build(recipe("g", kind, options=options))
    graph.validate()
    return graph


def typed(**options) -> HeteroGraph:
    return made("typed", **{"nodes": 400, "edges": 6000, **options})


def degrees(graph: HeteroGraph, end: str) -> np.ndarray:
    return np.bincount(getattr(graph, end).numpy(), minlength=graph.num_nodes)


def ratios(graph: HeteroGraph) -> tuple[float, float]:
    stats = GraphIndex.of(graph).relation_stats
    return stats.src_pairs.sum() / graph.num_edges, stats.dst_pairs.sum() / graph.num_edges


# Units in stores are known by their recipes: what a recipe makes must never change. Where another
# graph is wanted, give it another kind or option.
PINNED = [
    ("typed", TYPED, "31fac4afd73e26809c2eb47a14da7410"),
    (
        "typed",
        {
            **TYPED,
            "skew": 1.1,
            "src_law": "power",
            "dst_law": "regular",
            "dst_hub": 0.2,
            "src_ratio": 0.5,
            "spread": 1.0,
            "popularity": 2.0,
            "locality": 0.5,
            "isolated": 0.2,
            "inverse": True,
        },
        "68906e85f4503104c574590e70057e84",
    ),
    ("road", {"nodes": 60, "etypes": 3, "seed": 1}, "c67d3b1ea787fad1a94c264e256fdcca"),
    ("clique", {"nodes": 20, "etypes": 5}, "e38c6aa81b9d1957a2ee34f7e7dd59a2"),
    (
        "community",
        {"nodes": 60, "edges": 300, "etypes": 3, "shuffled": True},
        "453d73548fc1f4ab7dd438caa10f85e9",
    ),
    ("published", {"graph": "aifb", "scale": 0.01}, "6f15eaa77fd64094f0f62c9fa41fcb63"),
    (
        "subsample",
        {"of": "clique", "of.nodes": 20, "nodes": 0.8, "edges": 0.5, "seed": 2},
        "3b1c8b92a40a8c02a0c787911f93eb47",
    ),
]


@pytest.mark.parametrize(("kind", "options", "fingerprint"), PINNED)
def test_a_recipe_makes_the_same_graph_for_ever(kind, options, fingerprint):
    assert made(kind, **options).fingerprint == fingerprint


def test_a_recipe_makes_the_same_graph_in_every_process():
    program = (
        "import json, sys\n"
        "from hetune.profiling.corpus import build, recipe\n"
        "for kind, options in json.load(sys.stdin):\n"
        "    print(build(recipe('g', kind, options=options)).fingerprint)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=json.dumps([(kind, options) for kind, options, _ in PINNED]),
        env={**os.environ, "PYTHONHASHSEED": "5", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [fingerprint for _, _, fingerprint in PINNED]


@pytest.mark.parametrize("kind", ["typed", "road", "clique", "community"])
def test_another_seed_makes_another_graph(kind):
    options = {"typed": TYPED, "community": {"nodes": 60, "edges": 300}}.get(kind, {"nodes": 60})
    one, other = (made(kind, **{**options, "seed": seed}) for seed in (1, 2))
    assert one.fingerprint != other.fingerprint


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("typed", {"nodes": 1, "edges": 0}),
        ("typed", {"nodes": 1, "edges": 9, "etypes": 4, "undirected": True}),
        ("typed", {"nodes": 9, "edges": 3, "etypes": 30, "ntypes": 5, "inverse": True}),
        ("typed", {"nodes": 9, "edges": 99, "src_hub": 1.0, "dst_law": "power"}),
        ("typed", {"nodes": 9, "edges": 99, "isolated": 1.0, "src_exponent": 1.0}),
        ("typed", {"nodes": 2000, "edges": 9000, "etypes": 1500, "skew": 1.5, "spread": 2.0}),
        ("road", {"nodes": 1}),
        ("road", {"nodes": 7, "degree": 4.0, "inverse": True}),
        ("clique", {"nodes": 2, "density": 0.0}),
        ("clique", {"nodes": 9, "density": 1.0, "inverse": True}),
        ("community", {"nodes": 5, "edges": 50, "communities": 99, "undirected": True}),
        ("published", {"graph": "mutag", "scale": 0.01, "inverse": True}),
        ("subsample", {"of": "typed", "of.nodes": 99, "of.edges": 999, "nodes": 0.5}),
    ],
)
def test_awkward_sizes(kind, options):
    graph = made(kind, **options)
    nodes, edges = size_of(recipe("g", kind, options=options))
    assert abs(nodes - graph.num_nodes) <= 0.1 * graph.num_nodes
    assert abs(edges - graph.num_edges) <= max(2, 0.3 * graph.num_edges)
    assert graph.is_canonical


# The typed maker, option by option.


def test_counts_are_exact():
    graph = typed(etypes=30, ntypes=4, skew=1.2)
    assert (graph.num_nodes, graph.num_edges) == (400, 6000)
    assert (graph.num_etypes, graph.num_ntypes) == (30, 4)
    assert all(size > 0 for size in np.diff(graph.node_offsets))


@pytest.mark.parametrize("skew", [0.0, 1.0, 2.0])
def test_relations_have_zipf_s_sizes(skew):
    sizes = -np.sort(
        -GraphIndex.of(typed(etypes=10, edges=100_000, skew=skew)).relation_stats.edges
    )
    assert sizes[0] / sizes[4] == pytest.approx(5**skew, rel=0.02)


@pytest.mark.parametrize(("src", "dst"), [(0.6, 0.05), (0.1, 0.5), (0.3, 0.3)])
@pytest.mark.parametrize("spread", [0.0, 1.0])
def test_pair_ratios_are_met(src, dst, spread):
    graph = typed(
        nodes=3000,
        etypes=20,
        skew=0.8,
        src_ratio=src,
        dst_ratio=dst,
        spread=spread,
        src_law="power",
    )
    assert ratios(graph) == pytest.approx((src, dst), rel=0.05)


def test_relations_differ_in_their_ratios_by_the_spread():
    def logs(spread):
        stats = GraphIndex.of(
            typed(nodes=3000, etypes=50, src_ratio=0.2, spread=spread)
        ).relation_stats
        return np.log(stats.src_pairs / stats.edges)

    assert logs(0.0).std() < 0.05
    assert logs(0.5).std() == pytest.approx(0.5, rel=0.3)


def test_degrees_follow_their_laws():
    regular, uniform, power = (
        degrees(typed(dst_law=law, dst_exponent=1.1), "dst")
        for law in ("regular", "uniform", "power")
    )
    assert np.ptp(regular) <= 1
    assert regular.max() < uniform.max() < power.max() / 4
    assert (power > 0).all()
    assert degrees(typed(src_law="power"), "dst").max() < 2 * uniform.max()


def test_a_steeper_power_concentrates_edges():
    tops = [degrees(typed(dst_law="power", dst_exponent=e), "dst").max() for e in (0.4, 0.8, 1.2)]
    assert tops == sorted(tops)


@pytest.mark.parametrize("end", ["src", "dst"])
def test_a_hub_takes_its_share(end):
    graph = typed(**{f"{end}_hub": 0.3, f"{end}_ratio": 0.01})
    assert degrees(graph, end).max() / graph.num_edges == pytest.approx(0.3, abs=0.05)


@pytest.mark.parametrize("isolated", [0.0, 0.25])
def test_nodes_are_isolated_as_told(isolated):
    graph = typed(isolated=isolated, etypes=9, ntypes=3, popularity=3.0)
    alone = (degrees(graph, "src") + degrees(graph, "dst")) == 0
    assert alone.mean() == pytest.approx(isolated, abs=0.01)


def test_popularity_makes_relations_share_their_nodes():
    def busiest(popularity):
        graph = typed(nodes=3000, etypes=40, src_ratio=0.1, popularity=popularity)
        return degrees(graph, "src").max()

    assert busiest(3.0) > 2 * busiest(1.0)


def test_locality_brings_ids_together():
    def distance(locality):
        graph = typed(locality=locality)
        return (graph.src - graph.dst).abs().float().mean().item()

    assert distance(1.0) < 0.1 * distance(0.0) < distance(0.0)
    assert distance(1.0) < distance(0.5) < distance(0.0)


def test_ordered_ids_put_popular_nodes_first():
    def first(ordered):
        graph = typed(dst_law="power", ordered=ordered)
        return degrees(graph, "dst")[:40].sum() / graph.num_edges

    assert first(True) > 2 * first(False)


def test_inverses_have_relations_of_their_own_or_not():
    plain, inverse = typed(etypes=3), typed(etypes=3, inverse=True)
    assert torch.equal(inverse.src, torch.cat([plain.src, plain.dst]))
    assert (inverse.num_edges, inverse.num_etypes) == (12_000, 6)
    undirected = typed(etypes=3, undirected=True)
    assert (undirected.num_edges, undirected.num_etypes) == (12_000, 3)
    assert degrees(undirected, "src").tolist() == degrees(undirected, "dst").tolist()


# The other makers.


def test_roads_are_grids_with_gaps():
    graph = made("road", nodes=10_000, degree=2.5)
    assert (graph.num_nodes, graph.num_edges) == (10_000, 25_000)
    assert degrees(graph, "dst").max() <= 4
    assert set((graph.src - graph.dst).abs().tolist()) == {1, 100}
    assert degrees(graph, "src").tolist() == degrees(graph, "dst").tolist()


def test_cliques_have_nearly_all_pairs_once():
    graph = made("clique", nodes=50, density=0.9, etypes=25)
    pairs = set(zip(graph.src.tolist(), graph.dst.tolist(), strict=True))
    assert len(pairs) == graph.num_edges == round(0.9 * 50 * 49)
    assert all(one != other for one, other in pairs)
    ruled = made("clique", nodes=50, density=0.9, etypes=25, order=1.0, groups=3)
    assert ratios(ruled)[0] < 0.7 * ratios(graph)[0]


def test_communities_keep_to_themselves():
    graph = made("community", nodes=1000, edges=20_000, communities=10, skew=0.0, inside=0.8)
    same = (graph.src // 100 == graph.dst // 100).float().mean().item()
    assert same == pytest.approx(0.8 + 0.2 / 10, abs=0.02)


# Files and parts.


def test_a_file_is_read_as_told(tmp_path):
    path = tmp_path / "mine.txt"
    path.write_text("a r b\nb r c\na s c\n")
    plain = load(path)
    assert made("file", path=str(path)).fingerprint == plain.fingerprint
    more = made("file", path=str(path), inverse=True, self_loops=True)
    assert more.fingerprint == plain.add_inverse().add_self_loops().fingerprint
    assert recipe("g", "file", options={"path": str(path)}).family == "mine"
    assert size_of(recipe("g", "file", options={"path": str(path)})) == (3, 3)


def test_hgt_gets_files_split_by_node_types(tmp_path):
    path = tmp_path / "mixed.npz"
    np.savez(path, src=[0, 2], dst=[1, 1], etype=[0, 0], ntype=[0, 0, 1])
    whole = recipe("g", "file", options={"path": str(path)})
    part = recipe("g", "subsample", options={"of": "file", "of.path": str(path)})
    for one in (whole, part):
        assert build(one).num_etypes == 1
        assert build(canonical(one)).num_etypes == 2
        assert (canonical(one).name, canonical(one).family) == ("g", "mixed")
    other = recipe("g", "typed", options=TYPED)
    assert canonical(other) is other


def test_a_graph_turned_round_has_the_same_edges_from_their_ends(tmp_path):
    (tmp_path / "mixed.txt").write_text("a r b\n")
    one = canonical(recipe("g", "file", options={"path": str(tmp_path / "mixed.txt")}))
    other = recipe("g", "typed", options=TYPED)
    for given in (one, other):
        other_way = with_edges_reversed(given)
        graph, turned = build(given), build(other_way)
        turned.validate()
        assert torch.equal(turned.src, graph.dst)
        assert torch.equal(turned.dst, graph.src)
        assert torch.equal(turned.etype, graph.etype)
        first, name, last = graph.canonical_etypes[0]
        assert turned.canonical_etypes[0] == (last, name, first)
        assert size_of(other_way) == size_of(given)
        assert whole(other_way) == given
        assert build(with_edges_reversed(other_way)).fingerprint == graph.fingerprint


def test_a_part_keeps_shares_order_and_types():
    graph = build(recipe("g", "typed", options={**TYPED, "nodes": 1000, "edges": 9000}))
    part = subsample(graph, nodes=0.5, edges=0.4, seed=1)
    part.validate()
    assert part.num_nodes == 500
    assert part.num_edges == pytest.approx(9000 * 0.25 * 0.4, rel=0.2)
    assert part.etype_names == graph.etype_names
    assert part.canonical_etypes == graph.canonical_etypes
    assert (part.etype.diff() >= 0).all()  # they lay by relation
    assert subsample(graph).fingerprint == graph.fingerprint
    assert subsample(graph, nodes=0).num_nodes == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nodes": 1.5}, "nodes is 1.5: give the share to keep, from 0 to 1"),
        ({"edges": float("nan")}, "edges is nan: give the share to keep, from 0 to 1"),
        ({"seed": -1}, "seed is -1: give a number of 0 or more"),
    ],
)
def test_shares_that_are_none(options, message):
    graph = build(recipe("g", "typed", options=TYPED))
    with pytest.raises(GraphError) as error:
        subsample(graph, **options)
    assert str(error.value) == message


# The corpus.


def test_the_corpus_spans_families_and_sizes():
    corpus = Spanning(2 * len(FAMILIES), seed=1, most_edges=20_000)
    recipes = corpus.recipes()
    assert recipes == corpus.recipes()
    assert recipes != replace(corpus, seed=2).recipes()
    assert {r.family for r in recipes[: len(FAMILIES)]} == set(FAMILIES)
    assert len({r.name for r in recipes}) == len(recipes)
    for one in recipes:
        graph = build(one)
        graph.validate()
        assert graph.is_canonical
        assert 20 <= graph.num_edges <= 30_000
        assert size_of(one)[1] == pytest.approx(graph.num_edges, rel=0.5, abs=16)


# What goes wrong.


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (
            "grid",
            {},
            "graph 'g': no kind 'grid'; take one of clique, community, file, published, reversed, "
            "road, subsample, typed",
        ),
        (
            "road",
            {"nodes": 9, "lanes": 2},
            "graph 'g' of kind 'road': no option 'lanes'; it takes degree, etypes, inverse, nodes, "
            "seed, shuffled",
        ),
        ("road", {}, "graph 'g' of kind 'road': the option 'nodes' is missing: give it"),
        ("road", {"nodes": 0}, "graph 'g' of kind 'road': nodes is 0: it is from 1 to 2.68435e+08"),
        (
            "road",
            {"nodes": 9, "seed": -1},
            "graph 'g' of kind 'road': seed is -1: it is at least 0",
        ),
        (
            "road",
            {"nodes": 9.0},
            "graph 'g' of kind 'road': nodes is 9.0, of type float: give one of type int",
        ),
        (
            "road",
            {"nodes": True},
            "graph 'g' of kind 'road': nodes is True, of type bool: give one of type int",
        ),
        (
            "typed",
            {"nodes": 9, "edges": 9, "src_law": "normal"},
            "graph 'g' of kind 'typed': src_law is 'normal': take one of uniform, power, regular",
        ),
        (
            "typed",
            {"nodes": 9, "edges": 9, "src_hub": float("nan")},
            "graph 'g' of kind 'typed': src_hub is nan: it is from 0 to 1",
        ),
        (
            "subsample",
            {"of": "typed", "of.nodes": 9},
            "graph 'g.of' of kind 'typed': the option 'edges' is missing: give it",
        ),
        ("subsample", {}, "graph 'g' of kind 'subsample': the option 'of' is missing: give it"),
    ],
)
def test_a_wrong_recipe_is_refused(kind, options, message):
    with pytest.raises(CampaignError) as error:
        recipe("g", kind, options=options)
    assert str(error.value) == message
    with pytest.raises(CampaignError) as error:
        build(GraphRecipe("g", "f", kind, tuple(sorted(options.items()))))
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"nodes": 2, "edges": 9, "etypes": 9, "ntypes": 3},
            "graph 'g': 3 ntypes with 2 nodes and 9 etypes: give at least one node for each, and a "
            "relation for every two",
        ),
        (
            {"nodes": 9, "edges": 9, "ntypes": 2, "undirected": True},
            "graph 'g': undirected with 2 ntypes: a relation joins a type to itself only where "
            "there is one; take inverse = true",
        ),
    ],
)
def test_options_that_do_not_go_together(options, message):
    with pytest.raises(CampaignError) as error:
        build(recipe("g", "typed", options=options))
    assert str(error.value) == message


def test_files_that_are_missing_or_changed(tmp_path):
    path = tmp_path / "mine.txt"
    with pytest.raises(GraphError, match="mine"):
        made("file", path=str(path))
    path.write_text("a r b\n")
    changed = recipe("g", "file", options={"path": str(path), "digest": "0" * 32})
    with pytest.raises(CampaignError, match="has changed since the campaign was read"):
        build(changed)


@pytest.mark.parametrize("wrong", [{"graphs": 0}, {"graphs": 1, "least_edges": 9}])
def test_a_corpus_without_room(wrong):
    with pytest.raises(CampaignError, match="take 1 or more graphs of 20 or more edges"):
        Spanning(**wrong)


def test_every_kind_says_what_its_options_mean():
    for kind, maker in KINDS.items():
        for name in maker.__dataclass_fields__:
            assert f"        {name}: " in maker.__doc__, (kind, name)
