"""Names keep their numbers: vocabularies, and converters there and back."""

import io
import json
import os
import pickle
import random
import warnings
from collections.abc import Callable

import networkx
import numpy as np
import pytest
import scipy.sparse
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import hetune
from hetune.variants.errors import GraphError, GraphFileError
from hetune.variants.graph import (
    HeteroGraph,
    Vocabulary,
    edited,
    from_dgl,
    from_edge_index_dict,
    from_networkx,
    from_pyg,
    from_scipy,
    renumbered,
    to_dgl,
    to_edge_index_dict,
    to_networkx,
    to_pyg,
    to_scipy,
)
from hetune.variants.graph.loaders import load
from hetune.variants.graph.subsample import subsample
from hetune.variants.testing.graphs import typed_graph
from hetune.variants.testing.strategies import graphs

from ._mutations import mutated

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # torch_geometric calls deprecated parts of torch
    from torch_geometric.data import Data


def named(graph: HeteroGraph) -> HeteroGraph:
    """Names that no alphabet orders so, several relations of one name, and nodes with names."""
    ntypes = dict(zip(graph.ntype_names, ("venue", "author", "paper"), strict=False))
    triples = [
        (ntypes[s], f"to {i // 2}", ntypes[d]) for i, (s, _, d) in enumerate(graph.canonical_etypes)
    ]
    # A relation of the same name between the same types is another one.
    triples = [
        t if t not in triples[:i] else (t[0], f"{t[1]} again", t[2]) for i, t in enumerate(triples)
    ]
    counts = np.diff(graph.node_offsets).tolist()
    return HeteroGraph(
        graph.src,
        graph.dst,
        graph.etype,
        graph.ntype,
        ntype_names=ntypes.values(),
        etype_names=[f"z{len(triples) - i}" for i in range(len(triples))],
        canonical_etypes=triples,
        node_names={
            name: [f"{name} {count - i}" for i in range(count)]
            for name, count in zip(ntypes.values(), counts, strict=True)
            if name != "author"
        },
    )


def counts_of(graph: HeteroGraph) -> dict[str, int]:
    return dict(zip(graph.ntype_names, np.diff(graph.node_offsets).tolist(), strict=True))


def through_torch(graph: HeteroGraph) -> HeteroGraph:
    file = io.BytesIO()
    torch.save(graph, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


def through_dgl(graph: HeteroGraph) -> HeteroGraph:
    os.environ.setdefault("DGLBACKEND", "pytorch")
    pytest.importorskip("dgl")
    return from_dgl(to_dgl(graph))


def through_dictionary(graph: HeteroGraph) -> HeteroGraph:
    edges = to_edge_index_dict(graph)
    return from_edge_index_dict(dict(reversed(edges.items())), counts_of(graph), like=graph)


def through_scipy(graph: HeteroGraph) -> HeteroGraph:
    matrices = {name: to_scipy(graph, name) for name in reversed(graph.etype_names)}
    return from_scipy(matrices, graph.ntype, like=graph)


def assert_equal(found: HeteroGraph, graph: HeteroGraph, *, is_grouped: bool) -> None:
    assert found.metadata() == graph.metadata()
    assert (found.etype_names, found.node_offsets) == (graph.etype_names, graph.node_offsets)
    assert found.node_names == graph.node_names
    order = torch.argsort(graph.etype, stable=True) if is_grouped else slice(None)
    back = torch.argsort(found.etype, stable=True) if is_grouped else slice(None)
    for column in ("src", "dst", "etype"):
        assert torch.equal(getattr(found, column)[back], getattr(graph, column)[order])


CONVERTERS: dict[str, tuple[Callable[[HeteroGraph], HeteroGraph], bool]] = {
    "networkx": (lambda graph: from_networkx(to_networkx(graph)), False),
    "pyg": (lambda graph: from_pyg(to_pyg(graph)), True),
    "pyg, homogeneous": (lambda graph: from_pyg(to_pyg(graph, homogeneous=True)), False),
    "edge_index_dict": (through_dictionary, True),
    "scipy": (through_scipy, True),
    "dgl": (through_dgl, True),
}
"""Ways there and back, and whether their format groups edges by relation."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.dgl if name == "dgl" else ()) for name in CONVERTERS],
)
@pytest.mark.filterwarnings("ignore")
@settings(max_examples=25)
@given(graphs().map(named))
def test_there_and_back_nothing_is_renumbered(name: str, graph: HeteroGraph):
    convert, is_grouped = CONVERTERS[name]
    assert_equal(convert(graph), graph, is_grouped=is_grouped)


@settings(max_examples=40)
@given(graphs().map(named), st.randoms(use_true_random=False))
def test_any_order_is_mended_by_a_vocabulary(graph: HeteroGraph, random):
    shuffled = graph.vocabulary().as_dict()
    for field in ("node_types", "relations"):
        random.shuffle(shuffled[field])
    triples = dict(zip(graph.etype_names, graph.canonical_etypes, strict=True))
    shuffled["canonical_etypes"] = [triples[name] for name in shuffled["relations"]]
    for names in shuffled["node_names"].values():
        random.shuffle(names)
    other = renumbered(graph, shuffled)
    assert other.vocabulary().as_dict() == json.loads(json.dumps(shuffled))
    assert_equal(renumbered(other, graph), graph, is_grouped=False)
    assert_equal(renumbered(other, graph.vocabulary()), graph, is_grouped=False)


def test_a_vocabulary_is_saved_and_read(tmp_path):
    graph = named(typed_graph((3, 2), [(0, 1, 4), (1, 0, 3)]))
    path = tmp_path / "names.json"
    graph.vocabulary().save(path)
    found = Vocabulary.load(path)
    assert found == graph.vocabulary() == Vocabulary.of(path) == Vocabulary.of(found.as_dict())
    assert hash(found) == hash(graph.vocabulary())
    assert pickle.loads(pickle.dumps(found)) == found
    assert renumbered(graph, path) is graph


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"relations": ["a", "a"]}, "relations holds 'a' twice"),
        ({"relations": "ab"}, "relations is a str: give a list"),
        ({"relations": [1]}, "relations holds 1: names are strings"),
        ({"relations": ["\ud800"]}, "which is no text: correct it"),
        ({"etypes": ["a"]}, "a vocabulary has no 'etypes': it takes node_types, relations"),
        ({"relations": ["a"], "canonical_etypes": [["n", "a", "n"]]}, "need node_types"),
        (
            {"node_types": ["n"], "relations": ["a"], "canonical_etypes": [["m", "a", "n"]]},
            r"canonical_etypes\[0\] names the node type 'm'",
        ),
        (
            {"node_types": ["n"], "relations": [], "canonical_etypes": [["n", "a", "n"]]},
            "1 triples but there are 0 edge types",
        ),
        ({"node_names": {"n": ["x", "x"]}}, r"node_names\['n'\] holds 'x' twice"),
        ({"node_types": ["n"], "node_names": [["x"]]}, "node_names is a list: give a dictionary"),
        (3, "vocabulary is a int: give a Vocabulary, a path, a graph"),
    ],
)
def test_what_is_no_vocabulary_is_refused(given, message):
    with pytest.raises(GraphError, match=message):
        Vocabulary.of(given)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[]", "holds no JSON object"),
        ("{", "JSON is wanted"),
        ("[" * 100_000, "JSON is wanted"),
        ("{}", 'lacks "format": "hetune-vocabulary"; write it with Vocabulary.save'),
        ('{"format": "hetune-vocabulary", "version": 2}', "version 2 of the format"),
        ('{"format": "hetune-vocabulary", "version": 1, "relations": 3}', "relations is a int"),
    ],
)
def test_files_that_are_none_are_refused(tmp_path, content, message):
    path = tmp_path / "names.json"
    path.write_text(content)
    with pytest.raises(GraphFileError, match=message):
        Vocabulary.load(path)
    with pytest.raises(GraphFileError, match="does not exist"):
        Vocabulary.load(tmp_path / "none.json")


def small() -> HeteroGraph:
    return HeteroGraph(
        torch.tensor([0, 1, 0]),
        torch.tensor([2, 2, 1]),
        torch.tensor([0, 1, 2]),
        torch.tensor([0, 0, 1]),
        ntype_names=["author", "paper"],
        etype_names=["writes", "reviews", "knows"],
        node_names={"author": ["ann", "bob"]},
        edge_data={"weight": torch.tensor([1.0, 2.0, 3.0])},
    )


def test_unknown_names_are_an_error_or_dropped_and_counted():
    graph = small()
    with pytest.raises(GraphError, match=r"no relations 'reviews', 'knows': .*unknown='drop'"):
        renumbered(graph, {"relations": ["writes"]})
    with pytest.warns(UserWarning, match="2 of 3 edges were dropped.*'reviews', 'knows'"):
        found = renumbered(graph, {"relations": ["writes", "cites"]}, unknown="drop")
    assert (found.etype_names, found.num_nodes) == (("writes", "cites"), 3)
    assert (found.etype.tolist(), found.edge_data["weight"].tolist()) == ([0], [1.0])
    with pytest.raises(GraphError, match="no node types 'author'"):
        renumbered(graph, {"node_types": ["paper"]})
    names = {"node_types": ["paper", "author"], "node_names": {"author": ["eve", "bob"]}}
    with pytest.raises(GraphError, match="no nodes of the type 'author' 'ann'"):
        renumbered(graph, names)
    with pytest.warns(UserWarning, match="2 of 3 edges were dropped"):
        found = renumbered(graph, names, unknown="drop")
    assert found.node_offsets == (0, 1, 3)
    assert (found.src.tolist(), found.dst.tolist()) == ([2], [0])
    assert found.node_names == {"author": ("eve", "bob")}
    with pytest.raises(GraphError, match="unknown is 'skip': give 'error' or 'drop'"):
        renumbered(graph, names, unknown="skip")


def test_a_vocabulary_whose_triples_are_others_is_refused():
    with pytest.raises(GraphError, match="an edge of type 0 goes from 'author' to 'paper'"):
        renumbered(
            small(),
            {
                "node_types": ["author", "paper"],
                "relations": ["writes", "reviews", "knows"],
                "canonical_etypes": [
                    ["paper", "writes", "author"],
                    ["author", "reviews", "paper"],
                    ["author", "knows", "author"],
                ],
            },
        )


def test_numbers_of_types_are_numbers_in_the_vocabulary():
    data = Data(edge_index=torch.tensor([[0, 1], [1, 0]]), edge_type=torch.tensor([1, 0]))
    known = {"node_types": ["user"], "relations": ["likes", "hates", "follows"]}
    found = from_pyg(data, vocabulary=known)
    assert (found.etype_names, found.ntype_names) == (("likes", "hates", "follows"), ("user",))
    assert found.etype.tolist() == [1, 0]
    data.edge_type = torch.tensor([1, 7])
    with pytest.raises(GraphError, match="no relations 'number 3'"):
        from_pyg(data, vocabulary=known)
    untyped = Data(edge_index=torch.tensor([[0, 1], [1, 0]]))
    with pytest.raises(GraphError, match="no relations '0'"):
        from_pyg(untyped, vocabulary=known)
    assert from_pyg(untyped, vocabulary={"relations": ["likes"]}).etype_names == ("likes",)
    eye = scipy.sparse.eye_array(2)
    assert from_scipy(eye, vocabulary={"relations": ["likes"]}).etype_names == ("likes",)
    with pytest.raises(GraphError, match="vocabulary and like are both given"):
        from_scipy(eye, vocabulary=known, like=found)


def test_networkx_nodes_are_looked_up_by_name():
    G = networkx.DiGraph()
    for head, relation, tail in [("c", "likes", "a"), ("a", "hates", "b")]:
        G.add_edge(head, tail, etype=relation)
    first = from_networkx(G, node_names=True)
    assert first.node_names == {"node": ("c", "a", "b")}
    again = networkx.DiGraph()
    again.add_edge("a", "b", etype="hates")
    again.add_edge("c", "a", etype="likes")
    assert_equal(from_networkx(again, like=first), first, is_grouped=True)
    again.add_edge("d", "a", etype="likes")
    with pytest.raises(GraphError, match="no nodes of the type 'node' 'd'"):
        from_networkx(again, like=first)


def test_a_networkx_graph_that_was_changed_is_read_as_it_is():
    G = to_networkx(small())
    G.add_node("new", ntype="venue")
    G.add_edge(0, "new", etype="visits")
    G.remove_node(2)
    found = from_networkx(G)
    assert found.ntype_names == ("author", "paper", "venue")
    assert found.etype_names == ("writes", "reviews", "knows", "visits")
    assert sorted(zip(found.src.tolist(), found.dst.tolist(), strict=True)) == [(0, 1), (0, 2)]
    G.graph["hetune_vocabulary"] = "{"
    assert from_networkx(G).ntype_names == ("author", "venue")


def test_node_names_stay_with_derived_graphs():
    graph = small()
    assert graph.node_names == {"author": ("ann", "bob")}
    assert hetune.generate("aifb", scale=0.01).node_names is None
    for derived in (
        graph.canonicalize(),
        graph.add_inverse(),
        graph.add_self_loops(),
        graph.unindexed(),
        graph.to("meta"),
        pickle.loads(pickle.dumps(graph)),
        through_torch(graph),
        edited(graph, remove={"knows": torch.tensor([[0], [1]])}),
        edited(graph, add_nodes={"paper": 2}),
    ):
        assert derived.node_names == graph.node_names
    assert edited(graph, add_nodes={"author": 1}).node_names is None
    half = subsample(graph, nodes=0.67, seed=1)
    assert half.node_names is not None
    assert len(half.node_names["author"]) == counts_of(half)["author"]
    assert set(half.node_names["author"]) <= {"ann", "bob"}


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"author": ["ann"]}, "has 1 names but there are 2 such nodes"),
        ({"author": ["ann", "ann"]}, "holds 'ann' twice"),
        ({"venue": []}, "has the node type 'venue', which is not one of"),
    ],
)
def test_node_names_have_to_fit(names, message):
    graph = small()
    with pytest.raises(GraphError, match=message):
        HeteroGraph(
            graph.src,
            graph.dst,
            graph.etype,
            graph.ntype,
            ntype_names=graph.ntype_names,
            node_names=names,
        )


def test_damaged_files_are_refused_or_read(tmp_path):
    path = tmp_path / "names.json"
    small().vocabulary().save(path)
    data, draw = path.read_bytes(), random.Random(0)
    for _ in range(500):
        path.write_bytes(mutated(data, data, draw))
        try:
            found = Vocabulary.load(path)
        except GraphFileError:
            continue
        assert Vocabulary.of(found.as_dict()) == found


def test_node_types_are_those_whose_nodes_have_names(tmp_path):
    names = {"node_names": {"node": ["b", "a"]}}
    assert Vocabulary.of(names).node_types == ("node",)
    (tmp_path / "g.tsv").write_text("a\tlikes\tb\n")
    found = load(tmp_path / "g.tsv", node_names=True, vocabulary=names)
    assert (found.src.tolist(), found.dst.tolist()) == ([1], [0])
    with pytest.raises(GraphError, match="the node type 'x', which node_types lacks: add it"):
        Vocabulary.of({"node_types": ["node"], "node_names": {"x": []}})
