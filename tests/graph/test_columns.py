"""What columns mean: said by the caller, or guessed where the content does not contradict it."""

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import torch

from hetune.variants.errors import GraphFileError
from hetune.variants.graph import HeteroGraph, load
from hetune.variants.graph.loaders import ColumnsWarning


def write(path: Path, content: str) -> Path:
    path.write_bytes(content.encode())
    return path


def edges_of(graph: HeteroGraph) -> list[tuple[int, int, int]]:
    columns = (graph.src, graph.dst, graph.etype)
    return list(zip(*(column.tolist() for column in columns), strict=True))


RING = [(i, (i + 1) % 9) for i in range(9)]


def ring(*more: str) -> str:
    return "".join(f"{i} {j} {more[i % len(more)] if more else ''}\n" for i, j in RING)


def weighted(end: int) -> str:
    rng = np.random.default_rng(0)
    ends, weights = rng.integers(0, 50, (500, 2)).tolist(), rng.integers(1, end, 500).tolist()
    return "".join(f"{i} {j} {w}\n" for (i, j), w in zip(ends, weights, strict=True))


# Text that is not what its number of columns says, and what the columns are.
CONTRADICTED = {
    "header above ids": ("g.tsv", "head\trelation\ttail\n3\t0\t1\n2\t1\t0\n"),
    "header above two columns": ("g.txt", "a b\n0 1\n1 2\n"),
    "header of words that are usual": ("g.tsv", "head\trelation\ttail\nann\tlikes\tbob\n"),
    "header above ids and words": ("g.tsv", "x\ty\tz\n0\tlikes\t1\n2\thas\t3\n2\thas\t1\n"),
    "header above numbers of pandas": ("g.tsv", "u\tv\n0.0\t1.0\n1.0\t2.0\n"),
    "data of NetworkX": ("g.txt", "0 1 {}\n1 2 {}\n"),
    "weights": ("g.txt", "0 1 0.5\n"),
    "integral weights as floats": ("g.txt", "0 1 1.0\n1 2 2.0\n"),
    "exponents": ("g.txt", "0 1 1e-3\n1 2 2e+4\n"),
    "one weight for all": ("g.txt", ring("1")),
    "ratings": ("g.txt", ring("3", "5", "4")),
    "signs": ("g.txt", "0 1 1\n1 2 -1\n2 0 1\n"),
    "times": ("g.txt", "0 1 1082040961\n1 2 1082155839\n"),
    "ratings of words": ("g.tsv", "ann\tjaws\t3\nbob\tjaws\t5\nann\talien\t4\n"),
    "times of words": (
        "g.tsv",
        "ann\tbob\t1082040961\nbob\tcid\t1082155839\nann\tcid\t1082155900\n",
    ),
    "one word for all": ("g.tsv", "".join(f"n{i}\tn{j}\tlink\n" for i, j in RING)),
    "counts": ("g.txt", "4 3\n0 1\n1 2\n2 3\n"),
    "counts from 1": ("g.txt", "9 9\n" + "".join(f"{i + 1} {j + 1}\n" for i, j in RING)),
    "counts above weights": ("g.txt", "4 3\n0 1 0.5\n1 2 0.5\n2 3 0.5\n"),
    "count of nodes": ("g.txt", "4\n0 1\n1 2\n2 3\n"),
    "rows, columns, entries": ("g.txt", "4 4 3\n0 1 7\n1 2 7\n2 3 7\n"),
    "doubled tabs": ("g.tsv", "a\t\tb\tc\n"),
    "a column without a value": ("g.tsv", "0\t1\t\n1\t2\t\n"),
    "four columns": ("g.tsv", "0\t1\t2\t3\n"),
    "csv as text": ("g.txt", "0,1\n1,2\n"),
    "csv without a header": ("g.csv", "0,1\n1,2\n"),
    "csv of words without a header": ("g.csv", "ann,bob\nbob,cid\n"),
    "relations last": ("g.tsv", "0\t1\tlikes\n1\t2\tlikes\n2\t0\thates\n"),
    "relations first": ("g.txt", "likes 0 1\nlikes 1 2\n"),
    "relations last, of words": ("g.txt", "".join(f"u{i} u{j} r{i % 3}\n" for i, j in RING * 4)),
    "relations first, of words": ("g.txt", "".join(f"r{i % 3} u{i} u{j}\n" for i, j in RING * 4)),
    "relations first, of numbers": (
        "g.txt",
        "".join(f"{i % 3} {i} {i * 7 % 99}\n" for i in range(99)),
    ),
    "numbers that name words": ("g.tsv", "0\tis\tann\n1\tis\tbob\n2\tis\tcid\n"),
    "pairs again": ("g.txt", "0 1 1\n1 0 1\n" * 150),
    "pairs at random, one weight": ("g.txt", weighted(2)),
    "pairs at random, ratings": ("g.txt", weighted(6)),
    "commas and blanks": ("g.txt", "0, 1\n1, 2\n"),
    "semicolons and blanks": ("g.txt", "a ;b\nb ;c\n"),
    "arrows": ("g.txt", "0 -> 1\n1 -> 2\n"),
    "a header above two rows": ("g.tsv", "node1\tnode2\ttype\n0\t1\tr\n1\t0\ts\n"),
    "a line that ends with a delimiter": ("g.csv", "src,dst\n0,1,\n1,2,\n"),
    "csv of ratings": ("g.csv", "userId,movieId,rating\n1,7,3.5\n2,8,4.0\n"),
    "csv of times": ("g.csv", "user,item,timestamp\n1,7,1082040961\n2,8,1082155839\n"),
    "csv of other numbers": ("g.csv", "a,b,c\n1,7,3.5\n2,8,4.0\n"),
    "csv of relations": ("g.csv", "node1,node2,type\n0,1,r\n"),
    "csv of labels": ("g.csv", "src,dst,label\n0,1,r\n"),
    "csv of two relations": ("g.csv", "src,dst,type,rel\n0,1,r,s\n"),
    "csv of NetworkX": ("g.csv", "source,target,weight\n0,1,0.5\n1,2,0.5\n"),
}


@pytest.mark.parametrize("case", CONTRADICTED)
def test_contradictions_show_three_lines_and_an_option_that_helps(tmp_path: Path, case: str):
    name, content = CONTRADICTED[case]
    path = write(tmp_path / name, content)
    with pytest.raises(GraphFileError) as caught:
        load(path)
    message, _, shown = str(caught.value).partition("\nit begins with\n")
    assert shown.split() == content.split()[: len(shown.split())]
    assert len(shown.splitlines()) == min(3, len(content.splitlines()))
    assert load(path, **first_advice(message)).num_edges > 0


def first_advice(message: str) -> dict[str, object]:
    """The options of a message, up to its first "or"."""
    advice = re.split(r", or,? |; or ", message)[0]
    found = re.findall(r'(columns|header|delimiter)=(?:"([^"]*)"|(True|False))', advice)
    assert found, message
    return {name: text or flag == "True" for name, text, flag in found}


def test_what_a_contradicted_file_holds_once_it_is_said(tmp_path: Path):
    def graph(case: str, **options: object) -> HeteroGraph:
        name, content = CONTRADICTED[case]
        return load(write(tmp_path / name, content), **options)

    by_names = graph("header above ids", columns="src:head,etype:relation,dst:tail")
    assert edges_of(by_names) == [(3, 1, 0), (2, 0, 1)]
    for columns in ("src,etype,dst", ("src", "etype", "dst"), {"src": 0, "etype": 1, "dst": 2}):
        again = graph("header above ids", columns=columns, header=True)
        assert edges_of(again) == edges_of(by_names)
    assert edges_of(graph("data of NetworkX", columns="src,dst,-")) == [(0, 1, 0), (1, 2, 0)]
    assert edges_of(graph("doubled tabs", columns="src,-,etype,dst")) == [(0, 1, 0)]
    assert edges_of(graph("counts", columns="src,dst", header=True)) == [
        (0, 1, 0),
        (1, 2, 0),
        (2, 3, 0),
    ]
    assert graph("header of words that are usual", header=False).num_edges == 2


def test_advice_by_content_keeps_relations_weights_and_times(tmp_path: Path):
    for case, etypes, data in (
        ("relations last", ("likes", "hates"), set()),
        ("relations first, of words", ("r0", "r1", "r2"), set()),
        ("relations last, of words", ("r0", "r1", "r2"), set()),
        ("relations first, of numbers", ("0", "1", "2"), set()),
        ("pairs again", ("0",), {"weight"}),
        ("pairs at random, ratings", ("0",), {"weight"}),
        ("arrows", ("0",), set()),
        ("a header above two rows", ("r", "s"), set()),
        ("csv of ratings", ("0",), {"weight"}),
        ("csv of times", ("0",), {"time"}),
        ("csv of other numbers", ("0",), {"weight"}),
        ("csv of relations", ("r",), set()),
    ):
        name, content = CONTRADICTED[case]
        path = write(tmp_path / name, content)
        with pytest.raises(GraphFileError) as caught:
            load(path)
        g = load(path, **first_advice(str(caught.value).partition("\nit begins")[0]))
        assert (g.etype_names, set(g.edge_data)) == (etypes, data), case


@pytest.mark.parametrize("name", ["rel", "relation", "predicate", "type", "Edge_Type"])
@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_relations_by_any_usual_name_are_no_longer_lost(tmp_path: Path, name: str, ending: str):
    path = tmp_path / f"g{ending}"
    if ending == ".csv":
        write(path, f"src,{name},dst\na,r,b\nb,s,a\n")
    else:
        table = pa.table({"src": ["a", "b"], name: ["r", "s"], "dst": ["b", "a"]})
        pyarrow.parquet.write_table(table, path)
    g = load(path)
    assert (edges_of(g), g.etype_names) == ([(0, 1, 0), (1, 0, 1)], ("r", "s"))


@pytest.mark.parametrize("content", ["(0, 1)\n(1, 2)\n", "[0, 1]\n[1, 2]\n", "{a b}\n"])
def test_brackets_are_no_part_of_nodes(tmp_path: Path, content: str):
    with pytest.raises(GraphFileError, match=r"each edge is in .*: write the lines without them"):
        load(write(tmp_path / "g.txt", content))


def test_comments_at_the_end_of_lines_are_said_to_be_no_columns(tmp_path: Path):
    for content, line in (("0 1 # c\n1 2\n", 1), ("0 1\n1 2 #c\n", 2)):
        with pytest.raises(GraphFileError, match=f"line {line} ends with a comment: remove"):
            load(write(tmp_path / "g.txt", content))


def test_a_line_of_numbers_is_skipped_as_a_header_if_that_is_said(tmp_path: Path):
    path = write(tmp_path / "g.txt", "3 3\n0 1\n1 2\n2 0\n")
    assert edges_of(load(path, header=True)) == [(0, 1, 0), (1, 2, 0), (2, 0, 0)]


def test_weights_and_times_are_kept_by_name(tmp_path: Path):
    path = write(tmp_path / "g.txt", "0 1 0.5 7\n1 2 2 9\n")
    g = load(path, columns="src,dst,weight,time")
    assert g.edge_data["weight"].tolist() == [0.5, 2.0]
    assert g.edge_data["weight"].dtype is torch.float32
    assert (g.edge_data["time"].tolist(), g.edge_data["time"].dtype) == ([7, 9], torch.int64)
    assert dict(load(path, columns="src,dst,-,-").edge_data) == {}
    later = load(path, columns={"dst": 1, "src": 0, "time": 2})
    assert later.edge_data["time"].tolist() == [0.5, 2.0]
    for value, message in (
        ("x", "no numbers"),
        ("nan", "row 1 has nan"),
        ("1e300", "row 1 has inf for weight: give finite float32"),
        ("", "row 1 has no weight"),
    ):
        with pytest.raises(GraphFileError, match=message):
            load(write(path, f"0\t1\t{value}\n"), columns="src,dst,weight", delimiter="\t")


def test_the_same_words_for_tables(tmp_path: Path):
    table = pa.table({"w": [0.5, 1.5], "to": [1, 2], "from": [0, 1], "kind": ["a", "b"]})
    pyarrow.parquet.write_table(table, tmp_path / "g.parquet")
    write(tmp_path / "g.csv", "w,to,from,kind\n0.5,1,0,a\n1.5,2,1,b\n")
    write(tmp_path / "g.tsv", "w\tto\tfrom\tkind\n0.5\t1\t0\ta\n1.5\t2\t1\tb\n")
    columns = {"src": "from", "dst": "to", "etype": "kind", "weight": "w"}
    text = ",".join(f"{role}:{name}" for role, name in columns.items())
    for name in ("g.parquet", "g.csv", "g.tsv"):
        for said in (columns, text, {"src": 2, "dst": 1, "etype": 3, "weight": 0}):
            options = {} if name == "g.parquet" else {"header": True}
            g = load(tmp_path / name, columns=said, **options)
            assert (edges_of(g), g.etype_names) == ([(0, 1, 0), (1, 2, 1)], ("a", "b"))
            assert g.edge_data["weight"].tolist() == [0.5, 1.5]
    with pytest.raises(GraphFileError, match=r'columns="src:from,etype:kind,dst:to,weight:w"') as e:
        load(tmp_path / "g.parquet")
    assert load(tmp_path / "g.parquet", **first_advice(str(e.value))).num_edges == 2


def test_a_header_of_usual_names_needs_no_columns(tmp_path: Path):
    path = write(tmp_path / "g.tsv", "etype\tdst\tsrc\n1\t2\t0\n0\t0\t1\n")
    assert edges_of(load(path, header=True)) == [(0, 2, 1), (1, 0, 0)]


def test_delimiters_and_comments(tmp_path: Path):
    g = load(write(tmp_path / "g.txt", "0|1\n1|2\n"), delimiter="|")
    assert edges_of(g) == [(0, 1, 0), (1, 2, 0)]
    blanks = load(write(tmp_path / "g.tsv", "a\t\tb\tc\n"), delimiter=" ")
    assert (edges_of(blanks), blanks.etype_names) == ([(0, 1, 0)], ("b",))
    commented = "// first\n0 1\n  // between\n1 2\n// last"
    assert edges_of(load(write(tmp_path / "g.txt", commented), comment="//")) == [
        (0, 1, 0),
        (1, 2, 0),
    ]
    topped = write(tmp_path / "g.csv", "# by hand\nsrc,dst\n0,1\n")
    assert load(topped, comment="#").num_edges == 1
    for delimiter in ("", ",,", '"', "\n"):
        with pytest.raises(GraphFileError, match="give one character"):
            load(topped, delimiter=delimiter)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("src,etype", "columns has no dst"),
        ("src,dst,head", "has the role 'head': the roles are src, etype, dst, weight, time"),
        ("src,dst,src", "gives two columns the role 'src'"),
        ({"src": 0, "dst": 0}, "gives column 0 two roles"),
        ({"src": 0, "dst": 3}, r"no column 3 for dst, only 0\.\.1"),
        ({"src": 0, "dst": -1}, "no column -1"),
        ({"src": "a", "dst": "b"}, r"no column 'a' for src, only \['0', '1'\]"),
        ("src,dst,-", "there are 2 columns, but columns= names 3"),
        ({"src": 0.5, "dst": 1}, "has 0.5 for src"),
        (3, "columns is a int: give roles"),
        ("", "columns has no src"),
    ],
)
def test_columns_that_cannot_be(tmp_path: Path, columns: object, message: str):
    path = write(tmp_path / "g.txt", "0 1\n1 2\n")
    with pytest.raises(GraphFileError, match=message):
        load(path, columns=columns)


# Small files that are what they look like, however little they say.
@pytest.mark.parametrize(
    ("content", "count"),
    [
        ("a\tr\tb\nb\ts\tc\nc\tt\td\n", 3),
        ("a\tr\tb\nc\ts\td\ne\tt\tf\n", 3),
        ("0\t0\t1\n1\t1\t2\n2\t2\t3\n", 3),
        ("0 1\n", 1),
        ("3 1\n1 2\n", 2),
        ("1 2\n2 3\n", 2),
        ("0 4\n2 1\n3 3\n", 3),
        ("a + b\nb - c\nc + a\n", 3),
        ("a\tr\thub\nb\tr\thub\nc\tr\thub\n" * 4, 12),
        ("".join(f"{i}\t{i % 2}\t{i + 1}\n" for i in range(20)), 20),
        ("".join(f"u{i}\tlikes\tthing{i % 3}\n" for i in range(20)), 20),
        ("".join(f"root\thas\tc{i}\n" for i in range(300)), 300),
    ],
)
def test_no_false_alarm_on_small_files(tmp_path: Path, content: str, count: int):
    assert load(write(tmp_path / "g.tsv", content)).num_edges == count


def test_no_false_alarm_on_few_entities_and_many_relations(tmp_path: Path):
    # As in the data set "nations": 14 entities, 55 relations.
    rng = np.random.default_rng(0)
    rows = np.unique(np.stack([rng.integers(0, n, 1600) for n in (14, 55, 14)], axis=1), axis=0)
    for text in ("{0}\t{1}\t{2}\n", "c{0}\tr{1}\tc{2}\n"):
        content = "".join(text.format(*row) for row in rng.permutation(rows).tolist())
        assert load(write(tmp_path / "g.tsv", content)).num_edges == len(rows)


@pytest.mark.data
@pytest.mark.parametrize(
    "name", ["aifb", "codex_s", "fb15k237", "kinship", "umls", "wn18rr", "imdb"]
)
def test_no_false_alarm_on_real_graphs(data_dir: Path, tmp_path: Path, name: str):
    g = load(data_dir / "graphs" / f"{name}.npz")
    rng = np.random.default_rng(0)
    rows = torch.stack([g.src, g.etype, g.dst], dim=1).numpy()
    for chosen in (rng.permutation(len(rows))[:20_000], np.lexsort((rows[:, 1], rows[:, 0]))[:500]):
        some = rows[chosen].tolist()
        for text in ("{0}\t{1}\t{2}\n", "n{0}\tr{1}\tn{2}\n", "{0} {2}\n"):
            content = "".join(text.format(*row) for row in some)
            path = write(tmp_path / "g.tsv", content)
            assert load(path, format=".tsv").num_edges == len(some)


@pytest.mark.parametrize("line", ["{0}\tw{1}\n", "w{1}\t{0}\n"])
def test_numbers_against_words_are_said_to_be_ends(line, tmp_path):
    path = write(tmp_path / "g.tsv", "".join(line.format(i, i % 3) for i in range(20)))
    with pytest.raises(GraphFileError, match=r'holds numbers, the other words: give columns="src,'):
        load(path)
    assert load(path, columns="src,dst").num_edges == 20
    assert load(path, bipartite=("a", "b")).num_ntypes == 2


def test_weights_of_few_edges_are_doubted(tmp_path):
    path = write(tmp_path / "g.txt", "".join(f"{i} {i + 1} {i % 2 + 7}\n" for i in range(5)))
    with pytest.warns(ColumnsWarning, match='so few lines tell: give columns="src,dst,weight", or'):
        load(path)
    assert load(path, columns="src,dst,weight").edge_data["weight"].tolist() == [7, 8, 7, 8, 7]
    load(path, columns="src,etype,dst")


def test_a_column_of_weights_is_not_dropped_silently(tmp_path):
    path = write(tmp_path / "g.csv", "src,dst,weight\n0,1,0.5\n1,2,0.5\n")
    with pytest.warns(ColumnsWarning, match='weight are not read: give columns="src:src,dst:dst,w'):
        load(path)
    assert not load(path, columns="src:src,dst:dst").edge_data
    assert "weight" in load(path, columns="src:src,dst:dst,weight:weight").edge_data
