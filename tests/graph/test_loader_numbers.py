"""Node ids in tables: integral floats are integers, and what is none is said."""

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from hetune.variants.errors import GraphFileError
from hetune.variants.graph import HeteroGraph, load

BIG = 2**64 - 1
FLOATS = "row 2 has the destination {}, which is no integer: .* relabel=True"


def table(path: Path, src: list[object], dst: list[object]) -> Path:
    """The same table as CSV, text or Parquet."""
    if path.suffix == ".parquet":
        is_big = any(isinstance(value, int) and value > 2**63 for value in src + dst)
        kinds = [pa.array(column, pa.uint64() if is_big else None) for column in (src, dst)]
        pyarrow.parquet.write_table(pa.table(kinds, names=["src", "dst"]), path)
        return path
    delimiter = "," if path.suffix == ".csv" else "\t"
    rows = [f"{a}{delimiter}{b}\n" for a, b in zip(src, dst, strict=True)]
    path.write_text("".join([f"src{delimiter}dst\n" if path.suffix == ".csv" else "", *rows]))
    return path


def edges_of(graph: HeteroGraph) -> list[tuple[int, int]]:
    return list(zip(graph.src.tolist(), graph.dst.tolist(), strict=True))


@pytest.mark.parametrize("ending", [".csv", ".txt", ".parquet"])
class TestNodes:
    def test_integral_floats_are_the_integers_that_they_are(self, tmp_path: Path, ending: str):
        path = table(tmp_path / f"g{ending}", [1, 2, 3], [2.0, 3.0, 1.0])
        g = load(path)
        assert (g.num_nodes, edges_of(g)) == (4, [(1, 2), (2, 3), (3, 1)])
        again = load(path, relabel=True)
        assert (again.num_nodes, edges_of(again)) == (3, [(0, 1), (1, 2), (2, 0)])

    @pytest.mark.parametrize("value", [0.5, float("nan"), float("inf"), 1e300])
    def test_other_floats_are_errors_that_say_so(self, tmp_path: Path, ending: str, value: float):
        path = table(tmp_path / f"g{ending}", [1, 2, 3], [2.0, value, 1.0])
        with pytest.raises(GraphFileError, match=FLOATS.format(r"\S+")):
            load(path)
        assert load(path, relabel=True).num_nodes == 4

    def test_ids_beyond_64_bits_are_labels_if_asked(self, tmp_path: Path, ending: str):
        path = table(tmp_path / f"g{ending}", [BIG, 5], [7, BIG - 1])
        with pytest.raises(GraphFileError, match=f"{BIG}, which is too large for an id: .*relabel"):
            load(path)
        g = load(path, relabel=True)
        assert (g.num_nodes, edges_of(g)) == (4, [(0, 2), (1, 3)])

    def test_integers_and_their_text_are_the_same_nodes(self, tmp_path: Path, ending: str):
        path = table(tmp_path / f"g{ending}", ["1", "2"], [2, 3])
        assert (load(path).num_nodes, edges_of(load(path))) == (4, [(1, 2), (2, 3)])
        labels = table(tmp_path / f"l{ending}", ["01", "1"], ["1", "2"])
        assert edges_of(load(labels)) == [(0, 1), (1, 2)]


# A few words among integers, the row and what helps besides relabel=True.
STRAYS = {
    "a comment": ("g.txt", "5 6\n6 7\n# end\n", "row 3 ('# end') has a source", {"comment": "#"}),
    "an end": (
        "g.txt",
        "".join(f"{i} {i + 1}\n" for i in range(300)) + "EOF EOF\n",
        "row 301 ('EOF EOF') has a source",
        {"comment": "EOF"},
    ),
    "a value that is missing": (
        "g.csv",
        "src,dst\n5,6\n7,NA\n6,5\n",
        "row 2 ('7 NA') has a destination",
        None,
    ),
}


@pytest.mark.parametrize("case", STRAYS)
def test_a_stray_word_does_not_number_integers_anew(tmp_path: Path, case: str):
    name, content, reason, skipping = STRAYS[case]
    (tmp_path / name).write_text(content)
    with pytest.raises(GraphFileError, match=re.escape(reason)) as caught:
        load(tmp_path / name)
    assert "relabel=True" in str(caught.value)
    edges = len(content.splitlines()) - name.endswith(".csv")
    assert load(tmp_path / name, relabel=True).num_edges == edges
    assert ("comment=" in str(caught.value)) == (skipping is not None)
    if skipping is not None:
        assert f'comment="{skipping["comment"]}"' in str(caught.value)
        assert edges_of(load(tmp_path / name, **skipping))[1] == ((6, 7) if edges == 3 else (1, 2))


def test_a_stray_word_in_parquet_and_in_one_of_two_node_types(tmp_path: Path):
    path = table(tmp_path / "g.parquet", ["5", "6"], ["6", "NA"])
    with pytest.raises(GraphFileError, match="a destination that is no integer, but 3 of 4") as e:
        load(path)
    assert "comment=" not in str(e.value)
    path = table(tmp_path / "g.csv", ["a", "b", "c"], [5, 6, "NA"])
    assert load(path).num_nodes == 6
    with pytest.raises(GraphFileError, match="a destination that is no integer, but 2 of 3"):
        load(path, bipartite=("user", "item"))


def test_fractions_are_no_nodes_beside_words_either(tmp_path: Path):
    path = table(tmp_path / "g.csv", ["a", "b"], [3.5, 4.0])
    with pytest.raises(GraphFileError, match=r"row 1 has the destination 3\.5, which is no"):
        load(path, columns="src:src,dst:dst")
    assert load(path, relabel=True).num_edges == 2


def test_types_of_edges_that_pandas_wrote_as_floats(tmp_path: Path):
    (tmp_path / "g.csv").write_text("src,dst,etype\n0,1,1.0\n1,2,0.0\n")
    assert load(tmp_path / "g.csv").etype.tolist() == [1, 0]
    (tmp_path / "g.csv").write_text("src,dst,etype\n0,1,0.5\n1,2,0\n")
    with pytest.raises(GraphFileError, match=r"row 1 has the edge type 0\.5.*say so with columns="):
        load(tmp_path / "g.csv")
    columns = {"src": "src", "dst": "dst", "weight": "etype"}
    assert load(tmp_path / "g.csv", columns=columns).edge_data["weight"].tolist() == [0.5, 0]


def test_bipartite_columns_are_ids_or_labels_each_by_itself(tmp_path: Path):
    (tmp_path / "g.csv").write_text("src,dst\nann,4\nbob,0\n")
    g = load(tmp_path / "g.csv", bipartite=("user", "item"))
    assert (g.node_offsets, edges_of(g)) == ((0, 2, 7), [(0, 6), (1, 2)])


def test_types_without_edges_are_counted_if_said(tmp_path: Path):
    (tmp_path / "g.txt").write_text("0\t1\t2\n2\t0\t1\n")
    assert load(tmp_path / "g.txt", num_etypes=5).num_etypes == 5
    with pytest.raises(GraphFileError, match="pass num_etypes=2 or more"):
        load(tmp_path / "g.txt", num_etypes=1)
    (tmp_path / "g.txt").write_text("a\tr\tb\n")
    with pytest.raises(GraphFileError, match="1 names of edge types: leave it out"):
        load(tmp_path / "g.txt", num_etypes=5)
