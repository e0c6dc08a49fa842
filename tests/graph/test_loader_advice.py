"""What the messages of loaders advise works when it is followed."""

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hetune.variants.errors import GraphFileError
from hetune.variants.graph import _arrays, load


def text(name: str, content: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        data = content.encode()
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return path

    return make


def npz(**arrays: list[int] | list[str]) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        np.savez(folder / "g.npz", **{name: np.array(values) for name, values in arrays.items()})
        return folder / "g.npz"

    return make


# A file, options for it, what the message advises, and options that follow the advice.
ADVICE: list[tuple[Callable[[Path], Path], dict[str, Any], str, dict[str, Any]]] = [
    (text("g.txt", "0 99999999999\n"), {}, "pass relabel=True", {"relabel": True}),
    (text("g.txt", "0 1\n1 2\n"), {"num_nodes": 2}, "pass num_nodes=3 or more", {"num_nodes": 3}),
    (text("g.tsv", "0\t9\t1\n"), {"num_etypes": 2}, "num_etypes=10 or more", {"num_etypes": 10}),
    (text("g.tsv", "0\t5000\t1\n"), {}, "or pass num_etypes", {"num_etypes": 5001}),
    (text("g.txt", "a b\n"), {"relabel": False}, "leave relabel out", {}),
    (text("g.tsv", "a\tr\tb\n"), {"num_etypes": 2}, "names of edge types: leave it out", {}),
    (text("g.csv", "src;dst\n0;1\n"), {}, 'give the delimiter, .*";"', {"delimiter": ";"}),
    (text("g.csv", "src\tdst\n0\t1\n"), {}, r'the delimiter, .*"\\t"', {"delimiter": "\t"}),
    (text("g.txt", "0,1\n1,2\n"), {}, 'the delimiter, .*","', {"delimiter": ","}),
    (
        text("g.csv", "src,dst\n0.5,1.5\n"),
        {},
        "pass relabel=True if such numbers are labels",
        {"relabel": True},
    ),
    (
        text("g.csv", "src,dst,etype\n0,1,0.5\n1,2,0.5\n"),
        {},
        "say so with columns=",
        {"columns": {"src": "src", "dst": "dst", "weight": "etype"}},
    ),
    (
        text("g.csv", "src,dst,etype\n0,1,\n"),
        {},
        "columns= can leave a column out",
        {"columns": "src:src,dst:dst"},
    ),
    (
        text("g.csv", "ann,bob\ncid,dan\n"),
        {"columns": "src,dst"},
        "header=True if it does, header=False if",
        {"columns": "src,dst", "header": False},
    ),
    (
        text("train2id.txt", "1\n0 50000 0\n"),
        {},
        "relabel=True",
        {"columns": "src,dst,etype", "header": True, "relabel": True},
    ),
    (
        text("a2id.txt", "1\n0 x 1\n"),
        {},
        "say what the columns are with",
        {"columns": "src,dst,etype", "header": True},
    ),
    (
        text("g.nt", "<http://e/a> <http://e/p> <http://e/b> .\nno\n"),
        {},
        'pass on_error="skip"',
        {"on_error": "skip"},
    ),
    (npz(src=[0, 5000], dst=[1, 2]), {}, "or pass num_nodes", {"num_nodes": 5000 + 1}),
    (npz(src=[0, 1], dst=[1, 2], etype=[0, 5000]), {}, "num_etypes", {"num_etypes": 5000 + 1}),
    (npz(src=[0, 1], dst=[1, 2]), {"split": "train"}, "leave split out", {}),
    (text("edges", "0 1\n"), {}, "pass format= with", {"format": ".txt"}),
    (text("edges.gz", "0 1\n"), {}, r"format= with.*may be compressed \(\.gz", {"format": ".txt"}),
]


@pytest.mark.parametrize("case", range(len(ADVICE)))
@pytest.mark.filterwarnings("ignore::hetune.variants.graph.loaders.SkippedLinesWarning")
def test_advice_helps(tmp_path: Path, case: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_arrays, "_FOUND", 1 << 10)  # as many ids are suspicious
    make, options, advice, followed = ADVICE[case]
    path = make(tmp_path)
    with pytest.raises(GraphFileError, match=advice):
        load(path, **options)
    assert load(path, **followed).num_edges > 0


# Nothing that a caller can pass would help here, so no option is named.
@pytest.mark.parametrize(
    "make",
    [
        npz(src=[0, 9], dst=[1, 2], ntype=[0, 0, 0]),
        npz(src=[0, 1], dst=[1, 2], etype=[0, 7], etype_names=["a"]),
        npz(src=[0, -1], dst=[1, 2]),
        text("g.mtx", "%%MatrixMarket matrix coordinate pattern general\n2 2 1\n3 1\n"),
    ],
)
def test_no_option_is_advised_that_would_not_help(tmp_path: Path, make: Callable[[Path], Path]):
    with pytest.raises(GraphFileError) as caught:
        load(make(tmp_path))
    assert "pass " not in str(caught.value)


def test_no_option_is_advised_for_ogb_s_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_arrays, "_FOUND", 1 << 10)
    text("edge.csv.gz", "0,1\n9,0\n")(tmp_path)
    text("num-node-list.csv.gz", "6\n")(tmp_path)
    with pytest.raises(GraphFileError, match=r"is 9, but the graph has 6 nodes .*: renumber$"):
        load(tmp_path)
    text("edge.csv.gz", "0,1\n2,0\n")(tmp_path)
    text("edge_reltype.csv.gz", "0\n5000\n")(tmp_path)
    with pytest.raises(GraphFileError, match=r"check edge_reltype\.csv\.gz$"):
        load(tmp_path)


def test_no_option_is_advised_for_ogb_s_node_types(tmp_path: Path):
    text("relations/a___writes___p/edge.csv.gz", "1,0\n0,2\n")(tmp_path)
    text("num-node-dict.csv.gz", "a,p\n2,2\n")(tmp_path)
    with pytest.raises(GraphFileError, match=r"is 2, but the graph has 2 p nodes .*: renumber$"):
        load(tmp_path)
