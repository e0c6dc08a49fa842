"""Partitions of files of edges are those of the graph in memory."""

import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from hetune.variants.errors import GraphError, GraphFileError, PartitionError
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.index import GraphIndex
from hetune.variants.partition import edge_files
from hetune.variants.partition.edge_files import EdgeFile
from hetune.variants.partition.edge_folder import EdgeFolder
from hetune.variants.partition.external import partition_edges
from hetune.variants.partition.journal import locked
from hetune.variants.partition.partitions import GraphPartitions
from hetune.variants.testing.graphs import typed_graph

from ._disk import full_disk

GRAPH = typed_graph([300, 200], [(0, 1, 900), (1, 0, 900), (0, 0, 2000), (1, 1, 9)])
COLUMNS = {name: getattr(GRAPH, name).numpy() for name in ("src", "dst", "etype")}


def written(ending: str, folder: Path) -> Path:
    """The edges of the graph in a file, in their order, which is none."""
    path = folder / f"edges{ending}"
    match ending:
        case ".npz":
            GRAPH.save(path)
        case ".npy":
            np.save(path, np.stack([*COLUMNS.values()]))
        case ".parquet":
            pa.parquet.write_table(pa.table(COLUMNS), path, row_group_size=700)
        case ".csv":
            pa.csv.write_csv(pa.table(COLUMNS), path)
        case _:
            ordered = [COLUMNS[name] for name in ("src", "etype", "dst")]
            np.savetxt(path, np.stack(ordered, 1), "%d", "\t" if ending == ".tsv" else " ")
    return path


@pytest.mark.parametrize("ending", edge_files.ENDINGS)
def test_a_file_has_the_partitions_of_its_graph(ending, tmp_path, monkeypatch):
    monkeypatch.setattr(edge_files, "CHUNK", 500)
    found = partition_edges(written(ending, tmp_path), tmp_path / "parts", size=400)
    graph = GRAPH
    if ending != ".npz":  # which alone has types of nodes
        graph = HeteroGraph(**COLUMNS, num_nodes=GRAPH.num_nodes)
    reference = GraphPartitions(graph, 400)
    assert (found.num_nodes, found.num_edges) == (graph.num_nodes, graph.num_edges)
    assert found.node_offsets == graph.node_offsets
    assert len(found.bounds) > 6
    for name in ("edges", "src_pairs", "dst_pairs"):
        counts = getattr(found.stats, name).tolist()
        assert counts == getattr(reference.stats, name).tolist(), name
    indptr = GraphIndex.of(graph).indptr.numpy()
    assert np.array_equal(found.starts, indptr[found.bounds])
    order = np.argsort(COLUMNS["dst"], kind="stable")
    for first in range(len(found.bounds) - 1):
        edges = found.edges(first, first + 1)
        low, high = found.bounds[first], found.bounds[first + 1]
        mine = np.sort(order[indptr[low] : indptr[high]])  # in the file's order
        assert all(np.array_equal(getattr(edges, n), COLUMNS[n][mine]) for n in COLUMNS)
    part = found.part(1, 4)
    part.graph.validate()
    assert part.graph.metadata() == graph.metadata()
    assert part.graph.ntype.tolist() == graph.ntype[part.nodes].tolist()


def test_a_folder_is_whole_or_none(tmp_path):
    path, folder = written(".npy", tmp_path), tmp_path / "parts"
    found = partition_edges(path, folder, size=400)
    again = pickle.loads(pickle.dumps(found))
    again.verify()
    assert again.digest == found.digest == partition_edges(path, folder, size=400).digest
    column = np.load(folder / "src.npy", mmap_mode="r+")
    column[7] += 1
    column.flush()
    with pytest.raises(GraphFileError, match=r"src\.npy is damaged"):
        EdgeFolder(folder).verify()
    column[:] = GRAPH.num_nodes
    with pytest.raises(GraphFileError, match=r"src\.npy is damaged"):
        EdgeFolder(folder).part(0, 1)
    (folder / "edges.json").write_text((folder / "edges.json").read_text().replace("300", "301"))
    with pytest.raises(GraphFileError):
        EdgeFolder(folder)
    (folder / "edges.json").unlink()
    with pytest.raises(GraphFileError, match="does not exist"):
        EdgeFolder(folder)
    with pytest.raises(GraphError, match="there are to be 100 and 4"):
        partition_edges(path, folder, num_nodes=100)
    np.save(path, -np.ones((2, 4), np.int64))
    with pytest.raises(GraphFileError, match="has the src -1"):
        partition_edges(path, folder)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"dst": [0, 1], "etype": [0, 0]}, "no column 'src'"),
        ({"src": [0, 1], "dst": [0]}, "columns of different lengths"),
        ({"src": [0], "dst": [1 << 27]}, "would be 134217729 nodes"),
        ({"src": [0], "dst": [0], "etype": [1 << 40]}, "edge types, for 1099511627776"),
        ({"src": [[0], [1]], "dst": [[1], [0]]}, "src has the shape"),
        ({"edge_index": [[0, 1], [1, 2], [2, 0]]}, "edge_index has the shape"),
        ({"edge_index": [[0], [1]], "num_nodes_list": [2.0]}, "from dtype"),
    ],
)
def test_columns_that_cannot_be_a_graph_are_refused(tmp_path, columns, message):
    np.savez(tmp_path / "edges.npz", **{name: np.array(ids) for name, ids in columns.items()})
    with pytest.raises(GraphError, match=message):
        partition_edges(tmp_path / "edges.npz", tmp_path / "parts")
    assert not (tmp_path / "parts").exists()


@pytest.mark.parametrize("then", [[[0, 1], [1, 0]], [[0, 9, 2], [1, 0, 1]], [[0, 0, 2], [1, 0, 9]]])
def test_a_file_that_changes_between_the_passes_is_refused(tmp_path, monkeypatch, then):
    read, passes = EdgeFile.chunks, iter([[[0, 1, 2], [1, 0, 1]], then])

    def changing(file):
        np.save(file.path, np.array(next(passes)))
        return read(file)

    np.save(tmp_path / "edges.npy", np.zeros((2, 0), int))
    monkeypatch.setattr(EdgeFile, "chunks", changing)
    with pytest.raises(GraphError, match="written to while it was read"):
        partition_edges(tmp_path / "edges.npy", tmp_path / "parts")
    with pytest.raises(GraphFileError):
        EdgeFolder(tmp_path / "parts")


def test_one_process_at_a_time_writes_a_folder(tmp_path):
    path, folder = written(".npy", tmp_path), tmp_path / "parts"
    folder.mkdir()
    with locked(folder / "lock"), pytest.raises(PartitionError, match="another process"):
        partition_edges(path, folder)
    np.save(path, np.zeros((2, 0), int))
    nothing = partition_edges(path, folder)
    assert (nothing.num_nodes, nothing.num_edges, nothing.bounds.tolist()) == (0, 0, [0])


@pytest.mark.parametrize(("room", "size"), [(3000, 400), (20_000, 1)])
def test_a_full_disk_leaves_no_edges_behind(tmp_path, room, size):
    """There is no room for the columns, or for these alone."""
    path, folder = written(".npy", tmp_path), tmp_path / "parts"
    options = {"num_nodes": 1 << 17, "size": size}
    partition_edges(path, folder, **options)  # of an earlier graph
    sizes = [file.stat().st_size for file in (folder / "src.npy", folder / "edges.json")]
    assert sizes[0] < room < sizes[1] or room < sizes[0]
    with full_disk(room):
        partition_edges(path, folder, **options)
    assert not [*folder.glob("*.npy")]
    with pytest.raises(GraphFileError, match="does not exist"):
        EdgeFolder(folder)
    found = partition_edges(path, folder, **options)
    found.verify()
    assert found.edges(0, len(found.bounds) - 1).src.tolist() != []
