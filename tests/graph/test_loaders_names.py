"""Files that are read with a vocabulary, and names of nodes that are kept."""

import bz2
import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import scipy.io
import scipy.sparse
import torch

import hetune
from hetune import nn
from hetune.variants.errors import GraphError, GraphFileError
from hetune.variants.graph import HeteroGraph, Vocabulary

ROWS = [("ann", "likes", "bob"), ("bob", "hates", "ann"), ("bob", "likes", "cat")]
OTHER = [ROWS[1], ROWS[2], ROWS[0]]


def write_tsv(path: Path, rows) -> Path:
    path = path.with_suffix(".tsv")
    path.write_text("".join("\t".join(row) + "\n" for row in rows))
    return path


def write_csv(path: Path, rows) -> Path:
    path = path.with_suffix(".csv.bz2")
    text = "src,etype,dst\n" + "".join(",".join(row) + "\n" for row in rows)
    path.write_bytes(bz2.compress(text.encode()))
    return path


def write_parquet(path: Path, rows) -> Path:
    path = path.with_suffix(".parquet")
    columns = dict(zip(("src", "etype", "dst"), zip(*rows, strict=True), strict=True))
    pa.parquet.write_table(pa.table({name: list(c) for name, c in columns.items()}), path)
    return path


def write_ntriples(path: Path, rows) -> Path:
    path = path.with_suffix(".nt")
    path.write_text("".join(" ".join(f"<e:{term}>" for term in row) + " .\n" for row in rows))
    return path


def write_turtle(path: Path, rows) -> Path:
    path = path.with_suffix(".ttl")
    lines = "".join(" ".join(f"e:{term}" for term in row) + " .\n" for row in rows)
    path.write_text("@prefix e: <e:> .\n" + lines)
    return path


def write_folder(path: Path, rows) -> Path:
    path.mkdir()
    for name, part in zip(("train", "valid", "test"), rows, strict=True):
        (path / f"{name}.txt").write_text("\t".join(part) + "\n")
    return path


WRITERS = [write_tsv, write_csv, write_parquet, write_ntriples, write_turtle, write_folder]


def edges_of(graph: HeteroGraph) -> set[tuple[int, int, int]]:
    return set(zip(graph.src.tolist(), graph.etype.tolist(), graph.dst.tolist(), strict=True))


@pytest.mark.parametrize("write", WRITERS)
def test_another_order_of_the_rows_gives_the_same_numbers(tmp_path, write):
    first = hetune.load(write(tmp_path / "one", ROWS), node_names=True)
    there = write(tmp_path / "other", OTHER)
    assert first.node_names is not None
    (names,) = first.node_names.values()
    assert [name.removeprefix("e:") for name in names] == ["ann", "bob", "cat"]
    assert hetune.load(there).etype_names != first.etype_names
    assert hetune.load(there).node_names is None
    path = tmp_path / "names.json"
    first.vocabulary().save(path)
    for options in ({"like": first}, {"vocabulary": path}, {"vocabulary": first.vocabulary()}):
        second = hetune.load(there, **options)
        assert second.vocabulary() == first.vocabulary()
        assert edges_of(second) == edges_of(first)
    only_types = {"relations": list(first.etype_names)}
    assert hetune.load(there, vocabulary=only_types).etype_names == first.etype_names


def test_a_layer_gives_the_same_rows(tmp_path):
    """Two triples in two orders, as they were seen to give other rows."""
    one = hetune.load(write_tsv(tmp_path / "one", ROWS[:2]), node_names=True)
    two = hetune.load(write_tsv(tmp_path / "two", ROWS[1::-1]), like=one)
    torch.manual_seed(0)
    layer, x = nn.RGCN(4, 4, 2), torch.randn(2, 4)
    with torch.no_grad():
        torch.testing.assert_close(layer(x, two), layer(x, one))


@pytest.mark.parametrize("write", WRITERS[:-1])
def test_unknown_names_are_an_error_or_dropped(tmp_path, write):
    first = hetune.load(write(tmp_path / "one", ROWS[:1]), node_names=True)
    there = write(tmp_path / "other", [ROWS[2], ROWS[0], ("ann", "knows", "bob")])
    with pytest.raises(GraphFileError, match=r"the vocabulary has no relations '(e:)?knows'"):
        hetune.load(there, like=first)
    with pytest.warns(UserWarning, match=r"2 of 3 edges .* relations '(e:)?knows'; nodes .*cat'"):
        found = hetune.load(there, like=first, unknown="drop")
    assert found.vocabulary() == first.vocabulary()
    assert edges_of(found) == edges_of(first)


def test_integers_are_numbers_in_the_vocabulary_unless_they_are_its_names(tmp_path):
    path = tmp_path / "edges.tsv"
    path.write_text("0\t1\t2\n1\t0\t0\n")
    names = {"node_types": ["user"], "relations": ["likes", "hates", "knows"]}
    graph = hetune.load(path, vocabulary=names)
    assert (graph.etype_names, graph.ntype_names) == (("likes", "hates", "knows"), ("user",))
    assert edges_of(graph) == {(0, 1, 2), (1, 0, 0)}
    graph = hetune.load(path, vocabulary={"relations": ["1", "0"]})
    assert edges_of(graph) == {(0, 0, 2), (1, 1, 0)}
    with pytest.raises(GraphFileError, match="no relations 'number 1'"):
        hetune.load(path, vocabulary={"relations": ["likes"]})
    # Labels that are integers are looked up where the vocabulary has them.
    labelled = hetune.load(path, relabel=True, node_names=True)
    assert labelled.node_names == {"node": ("0", "1", "2")}
    path.write_text("2\t0\t1\n")
    assert edges_of(hetune.load(path, like=labelled)) == {(2, 0, 1)}
    with pytest.raises(GraphError, match="vocabulary and like are both given"):
        hetune.load(path, vocabulary=names, like=labelled)


def test_data_without_node_types_is_told_from_a_vocabulary_with_several(tmp_path):
    path = write_tsv(tmp_path / "one", ROWS)
    names = {"node_types": ["person", "place"], "relations": ["hates", "likes"]}
    with pytest.raises(GraphFileError, match=r"tells no node types, .* leave node_types out of it"):
        hetune.load(path, vocabulary=names, unknown="drop")
    del names["node_types"]  # the advice
    assert hetune.load(path, vocabulary=names).etype_names == ("hates", "likes")


def test_both_sides_of_a_bipartite_table_have_names(tmp_path):
    path = tmp_path / "edges.csv"
    path.write_text("src,dst\nx,p\ny,p\n")
    options = {"bipartite": ("user", "item"), "node_names": True}
    first = hetune.load(path, **options)
    assert first.node_names == {"user": ("x", "y"), "item": ("p",)}
    path.write_text("src,dst\ny,p\n")
    second = hetune.load(path, bipartite=("user", "item"), like=first)
    assert (second.src.tolist(), second.dst.tolist()) == ([1], [2])


def test_openke_names_its_entities(tmp_path):
    (tmp_path / "train2id.txt").write_text("1\n0 1 0\n")
    (tmp_path / "entity2id.txt").write_text("2\n/m/a\t0\n/m/b\t1\n")
    (tmp_path / "relation2id.txt").write_text("1\nlikes\t0\n")
    first = hetune.load(tmp_path / "train2id.txt", node_names=True)
    assert first.node_names == {"entity": ("/m/a", "/m/b")}
    (tmp_path / "entity2id.txt").write_text("2\n/m/b\t0\n/m/a\t1\n")
    second = hetune.load(tmp_path / "train2id.txt", like=first)
    assert edges_of(second) == {(1, 0, 0)}


def test_terms_of_rdf_are_named_by_type(tmp_path):
    path = tmp_path / "graph.nt"
    path.write_text('<e:a> <e:p> "1"^^<e:int> .\n_:x <e:p> "a \\"b\\""@EN .\n')
    graph = hetune.load(path, node_names=True)
    assert graph.node_names == {
        "iri": ("e:a",),
        "literal": ('"1"^^<e:int>', '"a "b""@en'),
        "blank": ("_:x",),
    }
    single = hetune.load(path, node_names=True, node_types="single")
    assert single.node_names == {"term": ("e:a", '"1"^^<e:int>', "_:x", '"a "b""@en')}


def test_archives_keep_and_take_names(tmp_path):
    graph = hetune.load(write_tsv(tmp_path / "one", ROWS), node_names=True)
    path = tmp_path / "graph.npz"
    graph.save(path)
    assert hetune.load(path).vocabulary() == graph.vocabulary()
    swapped = {"relations": list(reversed(graph.etype_names))}
    assert hetune.load(path, vocabulary=swapped).etype_names == graph.etype_names[::-1]
    np.savez(path, src=[0], dst=[1], etype=[1])
    assert hetune.load(path, vocabulary={"relations": ["a", "b"]}).etype_names == ("a", "b")


@pytest.mark.parametrize(
    "change",
    [
        {"node_name_offsets": np.array([0, 5, 3, 9], np.int64)},
        {"node_name_offsets": np.array([0, 3, 6, 1 << 40], np.int64)},
        {"node_name_offsets": np.array([0, 3], np.int64)},
        {"node_name_utf8": np.full(9, 255, np.uint8)},
        {"named_ntypes": np.array(["venue"])},
        {"node_name_utf8": np.frombuffer(b"annannann", np.uint8)},
    ],
)
def test_archives_with_other_names_are_refused(tmp_path, change):
    path = tmp_path / "graph.npz"
    hetune.load(write_tsv(tmp_path / "one", ROWS), node_names=True).save(path)
    with np.load(path) as archive:
        arrays = dict(archive)
    np.savez(path, **arrays | change)
    with pytest.raises(GraphFileError):
        hetune.load(path)


def test_other_formats_take_a_vocabulary(tmp_path):
    path = tmp_path / "graph.mtx"
    scipy.io.mmwrite(path, scipy.sparse.eye_array(2))
    known = Vocabulary(("user",), ("likes",))
    graph = hetune.load(path, vocabulary=known)
    assert (graph.etype_names, graph.ntype_names) == (("likes",), ("user",))
    with pytest.raises(GraphError, match="no relations '0'"):
        hetune.load(path, vocabulary={"relations": ["a", "b"]})
    relations = tmp_path / "raw" / "relations"
    for name, edges in (("a___to___b", "0,0\n"), ("b___of___a", "0,1\n")):
        (relations / name).mkdir(parents=True)
        (relations / name / "edge.csv.gz").write_bytes(gzip.compress(edges.encode()))
    (tmp_path / "raw" / "num-node-dict.csv.gz").write_bytes(gzip.compress(b"a,b\n2,1\n"))
    first = hetune.load(tmp_path / "raw")
    swapped = first.vocabulary().as_dict()
    swapped = {name: values[::-1] for name, values in swapped.items()}
    found = hetune.load(tmp_path / "raw", vocabulary=swapped)
    assert (found.etype_names, found.ntype_names) == (("of", "to"), ("b", "a"))
    assert edges_of(found) == {(0, 0, 2), (1, 1, 0)}


def test_parts_of_a_split_keep_names_and_triples(tmp_path):
    path = tmp_path / "graph.npz"
    graph = HeteroGraph(
        torch.tensor([0, 1]),
        torch.tensor([1, 2]),
        torch.tensor([0, 1]),
        torch.tensor([0, 0, 1]),
        ntype_names=["author", "paper"],
        etype_names=["knows", "writes"],
        node_names={"author": ["ann", "bob"]},
    )
    graph.save(path)
    with np.load(path) as archive:
        arrays = dict(archive)
    np.savez(path, **arrays, split=np.array([0, 1], np.int8))
    part = hetune.load(path, split="train")
    assert part.num_edges == 1
    assert part.vocabulary() == graph.vocabulary()
