"""Loaders: what each format gives, and what every broken file is answered with."""

import gzip
import io
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import scipy.io
import scipy.sparse
import torch

from hetune.variants.errors import GraphError, GraphFileError
from hetune.variants.graph import HeteroGraph
from hetune.variants.graph.loaders import ColumnsWarning, formats, load

TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
NTRIPLES = f"""\
# people
<http://x/ann> <http://x/knows> <http://x/bob> .
<http://x/ann> {TYPE} <http://x/Person> .
<http://x/ann> <http://x/name> "Ann"@en .

_:note <http://x/about> <http://x/ann> .
<http://x/ann> <http://x/knows> <http://x/bob> .
"""


def write(path: Path, content: str | bytes) -> Path:
    data = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def edges_of(graph: HeteroGraph) -> list[tuple[int, int, int]]:
    columns = (graph.src, graph.dst, graph.etype)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def npz_bytes(**arrays: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def flat() -> dict[str, np.ndarray]:
    return {
        "src": np.array([0, 1, 2], dtype=np.int32),
        "dst": np.array([2, 2, 0], dtype=np.int32),
        "etype": np.array([0, 1, 1], dtype=np.int16),
        "ntype": np.array([0, 0, 1, 1], dtype=np.int16),
        "etype_names": np.array(["a", "b", "c"]),
        "ntype_names": np.array(["x", "y"]),
        "split": np.array([0, 2, 0], dtype=np.int8),
    }


def test_npz(tmp_path: Path):
    path = write(tmp_path / "g.npz", npz_bytes(**flat()))
    g = load(path)
    assert edges_of(g) == [(0, 2, 0), (1, 2, 1), (2, 0, 1)]
    assert (g.num_nodes, g.etype_names, g.ntype_names) == (4, ("a", "b", "c"), ("x", "y"))
    train = load(str(path), split="train")
    assert edges_of(train) == [(0, 2, 0), (2, 0, 1)]
    assert (train.num_nodes, train.num_etypes) == (4, 3)
    assert load(path, split="valid").num_edges == 0


def test_npz_of_arrays_that_do_not_fit_together(tmp_path: Path):
    for name, message in (
        ("dst", "dst has 2 entries but src has 3"),
        ("etype", "etype has 2 entries but src has 3"),
        ("split", "split has another length than src"),
    ):
        arrays = flat()
        arrays[name] = arrays[name][:2]
        path = write(tmp_path / "g.npz", npz_bytes(**arrays))
        with pytest.raises(GraphFileError, match=rf"g\.npz: {message}"):
            load(path, split="train")


def test_npz_part_keeps_the_nodes_and_types_of_the_whole(tmp_path: Path):
    arrays = {name: flat()[name] for name in ("src", "dst", "etype", "split")}
    arrays["split"] = np.array([0, 1, 2], dtype=np.int8)
    path = write(tmp_path / "g.npz", npz_bytes(**arrays))
    whole = load(path)
    for i, split in enumerate(("train", "valid", "test")):
        part = load(path, split=split)
        assert edges_of(part) == [edges_of(whole)[i]]
        assert (part.num_nodes, part.num_etypes) == (3, 2)
        assert (part.etype_names, part.ntype_names) == (whole.etype_names, whole.ntype_names)


def test_npz_needs_only_edges(tmp_path: Path):
    path = write(tmp_path / "g.npz", npz_bytes(src=np.array([0]), dst=np.array([1])))
    assert load(path).num_nodes == 2


@pytest.mark.parametrize("name", ["g.nt", "g.nt.gz"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_ntriples(tmp_path: Path, name: str, mark: str):
    g = load(write(tmp_path / name, mark + NTRIPLES))
    assert g.ntype_names == ("iri", "literal", "blank")
    assert [n.rsplit("/", 1)[-1].split("#")[-1] for n in g.etype_names] == [
        "knows",
        "type",
        "name",
        "about",
    ]
    assert g.node_offsets == (0, 3, 4, 5)
    assert edges_of(g) == [(0, 1, 0), (0, 2, 1), (0, 3, 2), (4, 0, 3)]


def test_ntriples_node_types(tmp_path: Path):
    path = write(tmp_path / "g.nt", NTRIPLES)
    assert load(path, node_types="class").ntype_names == (
        "http://x/Person",
        "iri",
        "literal",
        "blank",
    )
    assert load(path, node_types="single").ntype_names == ("term",)
    without = load(path, literals=False)
    assert (without.num_edges, without.ntype_names) == (3, ("iri", "blank"))


def test_turtle_is_the_same_graph(tmp_path: Path):
    turtle = """\
    @prefix x: <http://x/> .
    x:ann x:knows x:bob ; a x:Person ; x:name "Ann"@en .
    _:note x:about x:ann .
    """
    a = load(write(tmp_path / "g.ttl", turtle))
    b = load(write(tmp_path / "g.nt", NTRIPLES))
    assert edges_of(a) == edges_of(b)
    assert (a.etype_names, a.ntype_names) == (b.etype_names, b.ntype_names)
    assert a.fingerprint == load(tmp_path / "g.ttl").fingerprint


@pytest.mark.parametrize("name", ["g.tsv", "g.txt", "g.txt.gz"])
def test_triple_text(tmp_path: Path, name: str):
    g = load(write(tmp_path / name, 'ann\tknows\tbo"b\n\nNA\tlikes it\tann\nbo"b\tknows\tnull\n'))
    assert g.etype_names == ("knows", "likes it")
    assert edges_of(g) == [(0, 2, 0), (1, 0, 1), (2, 3, 0)]


def test_relations_of_text_that_are_integers_are_edge_types(tmp_path: Path):
    g = load(write(tmp_path / "g.tsv", "0\t1\t2\n3\t0\t4\n"))
    assert edges_of(g) == [(0, 2, 1), (3, 4, 0)]
    assert g.etype_names == ("0", "1")
    labels = load(write(tmp_path / "l.tsv", "ann\t3\tbob\nbob\t1\tann\n"))
    assert (edges_of(labels), labels.num_etypes) == ([(0, 1, 3), (1, 0, 1)], 4)
    padded = load(write(tmp_path / "p.tsv", "0\t01\t2\n3\t0\t4\n"))
    assert (edges_of(padded), padded.etype_names) == ([(0, 2, 0), (3, 4, 1)], ("01", "0"))
    with pytest.raises(GraphFileError, match=r"g\.tsv: etype\[1\] is -1"):
        load(write(tmp_path / "g.tsv", "0\t1\t2\n3\t-1\t4\n"))


def test_edge_lists(tmp_path: Path):
    ids = write(tmp_path / "a.txt", "# from  to\n0 4\n2 1\n")
    assert (load(ids).num_nodes, edges_of(load(ids))) == (5, [(0, 4, 0), (2, 1, 0)])
    assert load(ids, num_nodes=9).num_nodes == 9
    relabelled = load(ids, relabel=True)
    assert (relabelled.num_nodes, edges_of(relabelled)) == (4, [(0, 2, 0), (1, 3, 0)])
    mixed = load(write(tmp_path / "b.txt", "35  1033\n35\t103482\n"), relabel=True)
    assert edges_of(mixed) == [(0, 1, 0), (0, 2, 0)]
    padded = load(write(tmp_path / "c.txt", "07 7\n7 8\n"))
    assert edges_of(padded) == [(0, 1, 0), (1, 2, 0)]
    with pytest.raises(GraphError, match="labels, not integers"):
        load(tmp_path / "c.txt", relabel=False)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("g.txt", "0 4\n  \n 2 1 \n"),
        ("g.txt", "0  4 \r\n \t\r\n\t2 1\r\n"),
        ("g.txt", " 0 4\n2 1"),
        ("g.tsv", "0 \t4\n2\t 1\n"),
        ("g.csv", "src,dst\n0, 4\n2 ,1\n"),
        ("g.csv", "src, dst\n0, 4\n2, 1\n"),
    ],
)
def test_blanks_around_values_are_no_part_of_them(tmp_path: Path, name: str, content: str):
    g = load(write(tmp_path / name, content))
    assert (g.num_nodes, edges_of(g)) == (5, [(0, 4, 0), (2, 1, 0)])


def test_one_wrong_id_takes_no_memory(tmp_path):
    path = write(tmp_path / "a.csv", "src,dst,etype\n0,1,0\n0,2000000000,0\n")
    with pytest.raises(GraphFileError, match=r"2000000001 nodes, .* relabel=True"):
        load(path)
    assert load(path, relabel=True).num_nodes == 3
    assert load(path, num_nodes=20_000_000, relabel=True).num_nodes == 20_000_000


def test_bipartite_columns_number_different_things(tmp_path: Path):
    g = load(write(tmp_path / "pa.txt", "0\t0\n0\t2\n1\t0\n"), bipartite=("paper", "author"))
    assert g.node_offsets == (0, 2, 5)
    assert edges_of(g) == [(0, 2, 0), (0, 4, 0), (1, 2, 0)]
    assert g.canonical_etypes == (("paper", "0", "author"),)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("0 1\n0 -1\n", r"dst\[1\] is -1, but the graph has 2 author nodes \(ids 0\.\.1\)"),
        ("0 -3\n", r"dst\[0\] is -3, but the graph has 0 author nodes: number them from 0"),
        ("-1 0\n2 1\n", r"src\[0\] is -1, but the graph has 3 paper nodes"),
        ("-2 0\n", r"src\[0\] is -2, but the graph has 0 paper nodes"),
    ],
)
def test_bipartite_columns_are_numbered_from_0(tmp_path: Path, lines: str, message: str):
    path = write(tmp_path / "pa.txt", lines)
    with pytest.raises(GraphFileError, match=message):
        load(path, bipartite=("paper", "author"))


def test_openke(tmp_path: Path):
    path = write(tmp_path / "train2id.txt", "2\n0 3 1\n1 0 0\n")
    assert edges_of(load(path, relabel=False)) == [(0, 3, 1), (1, 0, 0)]
    assert load(path, num_nodes=9).num_nodes == 9
    for options in ({"relabel": True}, {"bipartite": ("user", "item")}):
        with pytest.raises(GraphFileError, match="taken as they are: leave relabel and bipartite"):
            load(path, **options)
    write(tmp_path / "entity2id.txt", "5\n" + "".join(f"/m/{i}\t{i}\n" for i in range(5)))
    write(tmp_path / "relation2id.txt", "3\nlikes it\t1\nknows\t0\nhas\t2\n")
    g = load(path)
    assert (g.num_nodes, g.etype_names) == (5, ("knows", "likes it", "has"))
    write(tmp_path / "relation2id.txt", "3\nknows\t0\n")
    with pytest.raises(GraphFileError, match=r"relation2id\.txt is no OpenKE dictionary"):
        load(path)
    with pytest.raises(GraphFileError, match=r"load train2id\.txt"):
        load(tmp_path / "entity2id.txt")


def test_openke_in_gzip(tmp_path: Path):
    rng = np.random.default_rng(0)
    rows = np.stack([*rng.integers(0, 5, (2, 200)), rng.integers(0, 3, 200)], axis=1)
    lines = "200\n" + "".join(f"{head} {tail} {relation}\n" for head, tail, relation in rows)
    path = write(tmp_path / "train2id.txt.gz", lines)
    assert path.stat().st_size < 6 * 200
    assert edges_of(load(path)) == [tuple(row) for row in rows.tolist()]
    write(tmp_path / "entity2id.txt", "9\n" + "".join(f"/m/{i}\t{i}\n" for i in range(9)))
    write(tmp_path / "relation2id.txt.gz", "3\na\t0\nb\t1\nc\t2\n")
    assert (load(path).num_nodes, load(path).etype_names) == (9, ("a", "b", "c"))
    with pytest.raises(GraphFileError, match=r"load train2id\.txt"):
        load(tmp_path / "relation2id.txt.gz")
    with pytest.raises(GraphFileError, match="states 999 edges but has 1"):
        load(write(path, "999\n0 1 0\n"))
    with pytest.raises(GraphFileError, match="line 1: '0 1 2' is not the count"):
        load(write(path, "0 1 2\n"))


def test_split_folder(tmp_path: Path):
    write(tmp_path / "train.txt", "a\tr\tb\nb\ts\tc\n")
    write(tmp_path / "test.txt", "c\tt\td\n")
    whole = load(tmp_path)
    assert (whole.num_nodes, whole.num_edges, whole.etype_names) == (4, 3, ("r", "s", "t"))
    test = load(tmp_path, split="test")
    assert edges_of(test) == edges_of(whole)[2:]
    assert (test.num_nodes, test.num_etypes) == (4, 3)
    with pytest.raises(GraphFileError, match=r"has no valid\.txt"):
        load(tmp_path, split="valid")
    write(tmp_path / "test.txt", "c\tt\td\nc\tt\t\n")
    with pytest.raises(GraphFileError, match=r"test\.txt: row 2 has no destination"):
        load(tmp_path)


def test_split_folder_of_integers(tmp_path: Path):
    write(tmp_path / "train.txt", "0\t1\t2\n3\t3\t0\n")
    write(tmp_path / "test.txt", "3\t0\t4\n")
    assert edges_of(load(tmp_path)) == [(0, 2, 1), (3, 0, 3), (3, 4, 0)]
    test = load(tmp_path, split="test")
    assert edges_of(test) == [(3, 4, 0)]
    assert (test.num_nodes, test.num_etypes) == (5, 4)
    write(tmp_path / "test.txt", "3\tlikes\t4\n")
    assert load(tmp_path).etype_names == ("1", "3", "likes")


def test_matrix_market(tmp_path: Path):
    matrix = scipy.sparse.coo_array(([1.0, 2.0], ([0, 2], [1, 0])), shape=(3, 3))
    scipy.io.mmwrite(tmp_path / "g.mtx", matrix)
    assert sorted(edges_of(load(tmp_path / "g.mtx"))) == [(0, 1, 0), (2, 0, 0)]
    header = "%%MatrixMarket matrix coordinate pattern symmetric\n% a comment\n3 3 2\n"
    both = load(write(tmp_path / "s.mtx", header + "2 1\n3 3\n"))
    assert sorted(edges_of(both)) == [(0, 1, 0), (1, 0, 0), (2, 2, 0)]
    wide = "%%MatrixMarket matrix coordinate pattern general\n2 3 1\n2 3\n"
    assert load(write(tmp_path / "w.mtx.gz", wide)).ntype_names == ("row", "col")


@pytest.mark.parametrize("name", ["g.csv", "g.csv.gz"])
def test_csv(tmp_path: Path, name: str):
    path = write(tmp_path / name, "weight,src,dst,etype\n0.5,0,2,a\n1,2,1,b\n2,2,2,a\n")
    with pytest.warns(ColumnsWarning, match="weight are not read"):
        g = load(path)
    assert edges_of(g) == [(0, 2, 0), (2, 1, 1), (2, 2, 0)]
    assert g.etype_names == ("a", "b")
    path = write(tmp_path / f"x{name}", "from;to;kind\nann;bob;3\n")
    g = load(path, columns={"src": "from", "dst": "to", "etype": "kind"}, delimiter=";")
    assert (edges_of(g), g.num_etypes) == ([(0, 1, 3)], 4)


def test_parquet(tmp_path: Path):
    table = pa.table(
        {"src": [0, 5], "dst": [1, 1], "etype": pa.array(["a", "b"]).dictionary_encode()}
    )
    pyarrow.parquet.write_table(table, tmp_path / "g.parquet")
    g = load(tmp_path / "g.parquet")
    assert (g.num_nodes, edges_of(g), g.etype_names) == (6, [(0, 1, 0), (5, 1, 1)], ("a", "b"))
    named = pa.table({"h": ["x", "y"], "t": ["y", "z"]})
    pyarrow.parquet.write_table(named, tmp_path / "n.parquet")
    assert edges_of(load(tmp_path / "n.parquet", columns={"src": "h", "dst": "t"})) == [
        (0, 1, 0),
        (1, 2, 0),
    ]
    spaced = pa.table({"src": ["x", " x"], "dst": ["y", ""]})
    pyarrow.parquet.write_table(spaced, tmp_path / "s.parquet")
    assert edges_of(load(tmp_path / "s.parquet")) == [(0, 2, 0), (1, 3, 0)]
    pyarrow.parquet.write_table(pa.table({"src": [0.5], "dst": [1]}), tmp_path / "f.parquet")
    with pytest.raises(GraphFileError, match=r"row 1 has the source 0\.5, which is no integer"):
        load(tmp_path / "f.parquet")


def ogb_hetero(root: Path) -> Path:
    raw = root / "raw"
    for name, edges in [
        ("author___writes___paper", "1,0\n0,2\n"),
        ("paper___cites___paper", "2,0\n"),
    ]:
        relation = raw / "relations" / name
        relation.mkdir(parents=True)
        write(relation / "edge.csv.gz", edges)
        write(relation / "num-edge-list.csv.gz", f"{edges.count(',')}\n")
    write(raw / "num-node-dict.csv.gz", "author,paper\n2,4\n")
    return raw


def test_ogb_hetero(tmp_path: Path):
    ogb_hetero(tmp_path)
    g = load(tmp_path)
    assert g.canonical_etypes == (("author", "writes", "paper"), ("paper", "cites", "paper"))
    assert g.node_offsets == (0, 2, 6)
    assert edges_of(g) == [(1, 2, 0), (0, 4, 0), (4, 2, 1)]
    assert load(tmp_path / "raw").fingerprint == g.fingerprint


def test_ogb_hetero_refuses(tmp_path: Path):
    raw = ogb_hetero(tmp_path)
    write(raw / "relations" / "paper___cites___paper" / "num-edge-list.csv.gz", "7\n")
    with pytest.raises(GraphFileError, match=r"has 1 edges but num-edge-list\.csv\.gz states 7"):
        load(raw)
    write(raw / "relations" / "paper___cites___paper" / "num-edge-list.csv.gz", "1\n")
    write(raw / "num-node-dict.csv.gz", "author,paper\n2,2\n")
    with pytest.raises(GraphFileError, match="is 2, but the graph has 2 paper nodes"):
        load(raw)
    (raw / "num-node-dict.csv.gz").unlink()
    with pytest.raises(GraphFileError, match=r"num-node-dict\.csv\.gz does not exist"):
        load(raw)


def test_ogb_homogeneous(tmp_path: Path):
    write(tmp_path / "edge.csv.gz", "0,1\n3,0\n")
    write(tmp_path / "num-node-list.csv.gz", "6\n")
    assert (load(tmp_path).num_nodes, edges_of(load(tmp_path))) == (6, [(0, 1, 0), (3, 0, 0)])
    write(tmp_path / "edge_reltype.csv.gz", "2\n0\n")
    assert edges_of(load(tmp_path)) == [(0, 1, 2), (3, 0, 0)]


MTX = "%%MatrixMarket matrix coordinate pattern general\n"
BROKEN: dict[str, tuple[str, str | bytes, str]] = {
    "empty": ("g.nt", b"", r"g\.nt is empty"),
    "unknown": ("g.docx", b"x", r"no loader for '\.docx'.*\.npz, \.parquet"),
    "nt syntax": ("g.nt", NTRIPLES + "<a> <b .\n", r"g\.nt, line 8: not a triple"),
    "nt CRLF": ("g.nt", NTRIPLES.replace("\n", "\r\n") * 40 + "<a>\r\n", r"g\.nt, line 281: not"),
    "nt cut": ("g.nt", NTRIPLES[:-20], r"g\.nt, line 7: not a triple.*cut short"),
    "nt no triple": ("g.nt", b"# nothing\n", "holds no triple"),
    "nt not text": ("g.nt", b"\xff\xfe\x00", r"g\.nt, line 1: not a triple"),
    "ttl syntax": ("g.ttl", "@prefix x: <http://x/> .\nx:a x:b\n", r"g\.ttl is no Turtle: at line"),
    "text columns": ("g.tsv", "a\tr\tb\na\tr\n", r"g\.tsv cannot be read.*Row #2: Expected 3"),
    "text cell": ("g.tsv", "a\tr\tb\na\t\tb\n", r"g\.tsv: row 2 has no edge type"),
    "text blanks for a cell": ("g.tsv", "0\t1\n1\t  \n", r"g\.tsv: row 2 has no destination"),
    "text cut": ("g.txt", "0 4\n2 1\n2 ", r"g\.txt cannot be read.*Row #3: Expected 2"),
    "text one column": (
        "g.txt",
        "hello\nworld\n",
        r"g\.txt: line 1 has 1 column: give the delimiter",
    ),
    "text comments only": ("g.txt", "# a\n# b\n", "holds no edge"),
    "text negative": ("g.txt", "0 1\n-1 2\n", r"src\[1\] is -1"),
    "text huge id": ("g.txt", "0 99999999999\n", "100000000000 nodes.*relabel=True"),
    "openke count": ("a2id.txt", "3\n10 11 0\n11 10 0\n", "states 3 edges but has 2"),
    "openke bomb": ("a2id.txt", "999999999999\n0 1 0\n", "states 999999999999 edges but has 1"),
    "openke columns": ("a2id.txt", "1\n0 1\n", "Expected 3 columns, got 2"),
    "openke words": ("a2id.txt", "1\n0 x 1\n", "row 1 has 'x', which is no id"),
    "openke header": ("a2id.txt", "0 1 2\n", "line 1: '0 1 2' is not the count"),
    "mtx header": ("g.mtx", "1 1 1\n", r"g\.mtx cannot be read as a Matrix Market file"),
    "mtx cut": ("g.mtx", MTX + "3 3 3\n1 1\n2 2\n", r"g\.mtx cannot be read"),
    "mtx bomb": ("g.mtx", MTX + "9 9 99999999999\n1 1\n", "states 99999999999 entries but has"),
    "mtx rows bomb": (
        "g.mtx",
        MTX + "9999999999999 9999999999999 1\n1 1\n",
        "reading a 9999999999999 x",
    ),
    "mtx range": ("g.mtx", MTX + "2 2 1\n3 1\n", r"g\.mtx cannot be read"),
    "mtx dense": (
        "g.mtx",
        "%%MatrixMarket matrix array real general\n1 1\n1\n",
        "holds a dense array",
    ),
    "csv column": ("g.csv", "a,b\n1,2\n", r"no column 'src' but \['a', 'b'\]: say which one"),
    "csv row": ("g.csv", "src,dst\n1,2\n3\n", r"g\.csv cannot be read.*Row #3: Expected 2"),
    "csv missing": ("g.csv", "src,dst\n1,2\n3,\n", "row 2 has no destination"),
    "csv blanks for a cell": ("g.csv", "src,dst\n1,2\n , 4\n", "row 2 has no source"),
    "csv not text": ("g.csv", b"src,dst\n\xff,\xfe\n", r"g\.csv cannot be read as a CSV"),
    "parquet": ("g.parquet", b"PAR1 and no more", r"g\.parquet cannot be read as a Parquet"),
    "npz not a zip": ("g.npz", b"PK but not really", r"g\.npz is cut short or no"),
    "npz no dst": ("g.npz", npz_bytes(src=np.array([0])), r"has no array 'dst' but \['src'\]"),
    "npz floats": (
        "g.npz",
        npz_bytes(src=np.array([0.5]), dst=np.array([0])),
        r"g\.npz: src has dtype float64",
    ),
    "npz range": (
        "g.npz",
        npz_bytes(**(flat() | {"dst": np.array([0, 9, 0])})),
        r"g\.npz: dst\[1\] is 9",
    ),
    "npz objects": (
        "g.npz",
        npz_bytes(src=np.array([{}]), dst=np.array([0])),
        "holds Python objects",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_files(tmp_path: Path, case: str):
    name, content, message = BROKEN[case]
    with pytest.raises(GraphFileError, match=message) as caught:
        load(write(tmp_path / name, content))
    assert name in str(caught.value)


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("g.nt.gz", "N-Triples file"),
        ("g.tsv.gz", "text with an edge per line"),
        ("g.csv.gz", "CSV table"),
        ("g.ttl.gz", "Turtle"),
    ],
)
def test_truncated_gzip(tmp_path: Path, name: str, what: str):
    rng = np.random.default_rng(0)
    content = "src,dst\n" + "".join(f"{i},{j}\n" for i, j in rng.integers(0, 999, (500, 2)))
    path = write(tmp_path / name, content)
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(GraphFileError, match=f"{name} is cut short or no {what}: "):
        load(path)


def test_truncated_npz(tmp_path: Path):
    data = npz_bytes(**flat())
    for length in (10, len(data) // 2, len(data) - 5):
        with pytest.raises(GraphFileError, match=r"g\.npz is cut short"):
            load(write(tmp_path / "g.npz", data[:length]))
    corrupt = bytearray(data)
    corrupt[80:120] = bytes(40)
    with pytest.raises(GraphFileError, match=r"g\.npz"):
        load(write(tmp_path / "g.npz", bytes(corrupt)))


@pytest.mark.parametrize(("offset", "byte"), [(4, 255), (6, 1), (8, 2)])
def test_npz_of_another_kind_of_zip(tmp_path: Path, offset: int, byte: int):
    data = bytearray(npz_bytes(**flat()))
    data[data.index(b"PK\3\4") + offset] = data[data.index(b"PK\1\2") + offset + 2] = byte
    with pytest.raises(GraphFileError, match=r"g\.npz cannot be read"):
        load(write(tmp_path / "g.npz", bytes(data)))


def test_npz_header_is_checked_before_memory_is_taken(tmp_path: Path):
    buffer = io.BytesIO()
    shape = {"descr": "<i8", "fortran_order": False, "shape": (10**15,)}
    np.lib.format.write_array_header_1_0(buffer, shape)
    with zipfile.ZipFile(tmp_path / "g.npz", "w") as archive:
        archive.writestr("src.npy", buffer.getvalue() + bytes(8))
        archive.writestr("dst.npy", buffer.getvalue() + bytes(8))
    with pytest.raises(GraphFileError, match=r"src\.npy states shape .*but holds 8: fetch"):
        load(tmp_path / "g.npz")


def test_missing_paths_and_wrong_options(tmp_path: Path):
    with pytest.raises(GraphFileError, match=r"none\.npz does not exist"):
        load(tmp_path / "none.npz")
    with pytest.raises(GraphFileError, match=r"has no train\.txt or \.tsv"):
        load(tmp_path)
    path = write(tmp_path / "g.npz", npz_bytes(**flat()))
    with pytest.raises(GraphFileError, match="no option 'relabel' for such a file; it takes split"):
        load(path, relabel=True)
    with pytest.raises(GraphFileError, match="split is 'dev': one of train, valid, test"):
        load(path, split="dev")
    del (arrays := flat())["split"]
    with pytest.raises(GraphFileError, match="has no array 'split': leave split out"):
        load(write(path, npz_bytes(**arrays)), split="train")
    with pytest.raises(GraphFileError, match="node_types is 'x': one of kind, class, single"):
        load(write(tmp_path / "g.nt", NTRIPLES), node_types="x")
    with pytest.raises(GraphFileError, match="no loader for 'doc'"):
        load(path, format="doc")


def test_format_overrides_the_ending(tmp_path: Path):
    path = write(tmp_path / "cora.cites", "0\t1\n")
    assert load(path, format="tsv").num_edges == 1
    assert set(formats()) >= {
        ".npz",
        ".nt",
        ".nt.gz",
        ".ttl",
        ".tsv",
        ".txt",
        ".mtx",
        ".csv",
        ".parquet",
    }


# (file of graphs/, nodes, edges, node types, edge types, largest in-degree)
KNOWN = [
    ("aifb", 8285, 29043, 10, 45, 1240),
    ("aifb_hetero", 7262, 24405, 7, 52, 267),
    ("am_whitelist", 1080876, 1360749, 17, 12, 154828),
    ("fb15k", 14951, 592213, 1, 1345, 9645),
    ("fb15k237", 14541, 310116, 1, 237, 7124),
    ("mag_0.1", 153270, 172586, 3, 3, 4391),
    ("mutag_hetero", 27163, 74050, 5, 25, 6781),
    ("umls", 135, 6529, 1, 46, 226),
]


@pytest.mark.data
@pytest.mark.parametrize("row", KNOWN, ids=[row[0] for row in KNOWN])
def test_real_npz(data_dir: Path, row: tuple[str, int, int, int, int, int]):
    name, *counts = row
    g = load(data_dir / "graphs" / f"{name}.npz")
    largest = int(torch.bincount(g.dst).max())
    assert [g.num_nodes, g.num_edges, g.num_ntypes, g.num_etypes, largest] == counts


@pytest.mark.data
@pytest.mark.parametrize(
    ("path", "options", "counts"),
    [
        ("aifb/aifb_stripped.nt.gz", {}, (8285, 29043, 45)),
        ("mutag/mutag_stripped.nt.gz", {}, (23644, 74227, 23)),
        ("codex-s", {}, (2034, 36543, 42)),
        ("umls", {}, (135, 6529, 46)),
        ("wn18rr", {}, (40943, 93003, 11)),
        ("openke/FB15K237/test2id.txt", {}, (14541, 20466, 237)),
        ("cora/cora.cites", {"format": "txt", "relabel": True}, (2708, 5429, 1)),
        ("acm/pa.txt", {"bipartite": ("paper", "author")}, (11186, 13407, 1)),
        ("csv/DE_edges.csv", {"columns": "src:from,dst:to"}, (9498, 153138, 1)),
        ("mtx/usroads.mtx", {}, (129164, 330870, 1)),
        ("mtx/karate.mtx", {}, (34, 156, 1)),
    ],
)
def test_real_originals(data_dir: Path, path: str, options: dict, counts: tuple[int, int, int]):
    g = load(data_dir / "raw" / path, **options)
    assert (g.num_nodes, g.num_edges, g.num_etypes) == counts


@pytest.mark.data
def test_original_and_archive_hold_the_same_edges(data_dir: Path):
    text = load(data_dir / "raw" / "umls")
    archive = load(data_dir / "graphs" / "umls.npz")
    sizes = [
        dict(zip(g.etype_names, torch.bincount(g.etype).tolist(), strict=True))
        for g in (text, archive)
    ]
    assert sizes[0] == sizes[1]
    degrees = [torch.bincount(g.dst, minlength=135).sort().values for g in (text, archive)]
    assert torch.equal(*degrees)
