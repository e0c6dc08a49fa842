"""OGB's raw folders have the partitions of the graphs that they are loaded as."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from hetune.variants.errors import GraphFileError
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.loaders import load
from hetune.variants.partition import edge_files, ogb_edges
from hetune.variants.partition.external import partition_edges
from hetune.variants.partition.ogb_edges import OgbFolder
from hetune.variants.partition.row_streams import RowStream

RANDOM = np.random.default_rng(0)
WRITES = np.stack([RANDOM.integers(0, 40, 900), RANDOM.integers(0, 50, 900)], 1)
CITES = np.stack([RANDOM.integers(0, 50, 300), RANDOM.integers(0, 50, 300)], 1)


def write(path: Path, table: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wb") as file:
        np.savetxt(file, table, "%d", ",")


def several_types(raw: Path) -> Path:
    """Whose authors all write, and whose paper 49 is in no edge."""
    for name, edges in (("author___writes___paper", WRITES), ("paper___cites___paper", CITES)):
        write(raw / "relations" / name / "edge.csv.gz", edges)
        write(raw / "relations" / name / "num-edge-list.csv.gz", np.array([len(edges)]))
        write(raw / "relations" / name / "edge_reltype.csv.gz", np.full(len(edges), 7))  # unused
    with gzip.open(raw / "num-node-dict.csv.gz", "wt") as file:
        file.write("author,paper\n40,51\n")
    return raw


def one_type(raw: Path) -> Path:
    write(raw / "edge.csv.gz", CITES)
    write(raw / "edge_reltype.csv.gz", np.arange(300) % 3)
    write(raw / "num-node-list.csv.gz", np.array([55]))
    return raw


def edges_of(graph: HeteroGraph) -> np.ndarray:
    columns = np.stack([graph.src.numpy(), graph.dst.numpy(), graph.etype.numpy()])
    return columns[:, np.argsort(columns[1], kind="stable")]


@pytest.mark.parametrize("made", [several_types, one_type])
def test_a_folder_has_the_partitions_of_its_graph(made, tmp_path, monkeypatch):
    monkeypatch.setattr(ogb_edges, "_BLOCK", 500)
    graph = load(made(tmp_path / "raw"))
    found = partition_edges(tmp_path, tmp_path / "parts", size=70)
    assert len([*OgbFolder(tmp_path).chunks()]) > 2
    assert found.node_offsets == graph.node_offsets
    whole = found.edges(0, len(found.bounds) - 1)
    order = np.argsort(whole.dst, kind="stable")
    assert np.array_equal(np.stack(whole)[:, order], edges_of(graph))
    if made is several_types:
        assert found.types.metadata() == graph.metadata()
        assert found.types.etype_names == graph.etype_names
    assert found.types.num_etypes == graph.num_etypes


@pytest.mark.parametrize("ends", [CITES.T, np.ascontiguousarray(CITES.T)])  # rows, or columns
def test_a_packed_folder_has_edges_and_features(ends, tmp_path, monkeypatch):
    monkeypatch.setattr(edge_files, "CHUNK", 70)
    x = RANDOM.standard_normal((55, 4)).astype(np.float16)
    given = {"edge_index": ends, "node_feat": x, "num_nodes_list": np.array([55])}
    (tmp_path / "raw").mkdir()
    np.savez_compressed(tmp_path / "raw" / "data.npz", **{**given, "node_year": np.zeros((55, 1))})
    found = partition_edges(tmp_path, tmp_path / "parts", size=70)
    assert found.num_nodes == 55
    whole = found.edges(0, len(found.bounds) - 1)
    order = np.argsort(whole.dst, kind="stable")
    expected = CITES.T[:, np.argsort(CITES[:, 1], kind="stable")]
    assert np.array_equal(np.stack(whole[:2])[:, order], expected)
    rows = RowStream(tmp_path / "raw" / "data.npz").unpack(tmp_path / "x.npy")
    assert np.array_equal(np.load(rows), x.astype(np.float32))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("num-edge-list.csv.gz", [7], r"has 300 edges but num-edge-list\.csv\.gz states 7"),
        ("edge.csv.gz", [[0, 51]], "has the node 51, of 51"),
        ("edge.csv.gz", [[-1, 0]], "has the node -1, of 51"),
    ],
)
def test_a_folder_that_was_damaged_is_refused(name, content, message, tmp_path):
    raw = several_types(tmp_path / "raw")
    write(raw / "relations" / "paper___cites___paper" / name, np.array(content))
    with pytest.raises(GraphFileError, match=message):
        partition_edges(raw, tmp_path / "parts")


@pytest.mark.parametrize(
    ("count", "value", "message"),
    [
        (299, 0, "ends before the edges"),
        (301, 0, "more than the"),
        (300, -1, r"reltype\.csv\.gz has the type -1"),
    ],
)
def test_each_edge_has_a_type(count, value, message, tmp_path):
    raw = one_type(tmp_path)
    write(raw / "edge_reltype.csv.gz", np.full(count, value))
    with pytest.raises(GraphFileError, match=message):
        partition_edges(raw, tmp_path / "parts")


def test_counts_are_no_less_than_none(tmp_path):
    raw = several_types(tmp_path / "raw")
    with gzip.open(raw / "num-node-dict.csv.gz", "wt") as file:
        file.write("nobody,author,paper\n-1,40,51\n")
    for read in (load, OgbFolder):
        with pytest.raises(GraphFileError, match="a line of counts"):
            read(raw)
