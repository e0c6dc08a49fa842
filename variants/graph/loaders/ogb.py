"""The raw folders of the Open Graph Benchmark."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import torch

from hetune.variants.errors import GraphFileError
from hetune.variants.graph._arrays import check_found, check_range
from hetune.variants.graph.convert.edge_index_dict import from_edge_index_dict
from hetune.variants.graph.hetero import CanonicalEtype, HeteroGraph
from hetune.variants.graph.loaders.file_errors import check_file, check_memory, reading
from hetune.variants.graph.loaders.options import NameOptions
from hetune.variants.graph.rename import named_by_number


def raw_folder(path: Path) -> Path | None:
    """The folder of `path` that OGB's raw files are in: itself or "raw"; None if it is neither."""
    for folder in (path, path / "raw"):
        if (folder / "relations").is_dir() or (folder / "edge.csv.gz").is_file():
            return folder
    return None


def load_ogb(path: Path, options: NameOptions) -> HeteroGraph:
    """Read an OGB raw folder, or the data set's folder that holds "raw".

    Heterogeneous (ogbn-mag, ogbl-biokg): `num-node-dict.csv.gz` and
    `relations/SRC___RELATION___DST/edge.csv.gz`. Homogeneous (ogbn-arxiv, ogbl-wikikg2):
    `edge.csv.gz`, `num-node-list.csv.gz` and, for knowledge graphs, `edge_reltype.csv.gz`.

    Raises:
        GraphFileError: A file is missing, cut short, or its length differs from the stated count.
    """
    folder = raw_folder(path)
    if folder is None:
        raise GraphFileError(
            f"{path} is no OGB raw folder: it has neither relations/ nor edge.csv.gz; "
            "give the folder called raw"
        )
    if (folder / "relations").is_dir():
        return _hetero(folder)
    graph = _homogeneous(folder)
    is_typed = (folder / "edge_reltype.csv.gz").is_file()
    return named_by_number(graph, options.known, relations=is_typed, node_types=False)


def node_counts(folder: Path) -> dict[str, int]:
    """Nodes of each type of a raw folder of several types.

    Raises:
        GraphFileError: The file is missing or has another form.
    """
    counts_file = folder / "num-node-dict.csv.gz"
    with reading(counts_file, "OGB's node counts"):
        check_file(counts_file)
        row = pyarrow.csv.read_csv(counts_file).to_pylist()
        if len(row) != 1 or not all(type(n) is int and n >= 0 for n in row[0].values()):
            raise GraphFileError(f"{counts_file}: give a line of node types and a line of counts")
        counts: dict[str, int] = row[0]
    return counts


def node_count(folder: Path) -> int:
    """Nodes of a raw folder of one type.

    Raises:
        GraphFileError: The file is missing or has another form, or counts those of several graphs.
    """
    counts = integers(folder / "num-node-list.csv.gz", 1).ravel().tolist()
    if len(counts) != 1:
        raise GraphFileError(f"{folder} holds {len(counts)} graphs: only one can be loaded")
    return int(counts[0])


def relations(folder: Path) -> dict[CanonicalEtype, Path]:
    """The folders of the edge types of a raw folder, in order.

    Raises:
        GraphFileError: There are none, or one has another name.
    """
    found: dict[CanonicalEtype, Path] = {}
    for relation in sorted((folder / "relations").iterdir()):
        parts = relation.name.split("___")
        if len(parts) != 3:
            raise GraphFileError(f"{relation}: folders are called SRC___RELATION___DST")
        found[parts[0], parts[1], parts[2]] = relation
    if not found:
        raise GraphFileError(f"{folder / 'relations'} has no relation: fetch it again")
    return found


def _hetero(folder: Path) -> HeteroGraph:
    counts = node_counts(folder)
    edges = {
        etype: torch.from_numpy(_edges(place).T.copy())
        for etype, place in relations(folder).items()
    }
    for (source, name, target), ends in edges.items():
        for ntype, ids in ((source, ends[0]), (target, ends[1])):
            check_range(name, ids, counts.get(ntype, 0), f"{ntype} nodes")
    return from_edge_index_dict(edges, counts)


def _homogeneous(folder: Path) -> HeteroGraph:
    edges, num_nodes = _edges(folder), node_count(folder)
    etype = None
    if (folder / "edge_reltype.csv.gz").is_file():
        etype = integers(folder / "edge_reltype.csv.gz", 1)[:, 0]
    check_range("edge.csv.gz", torch.from_numpy(edges.ravel()), num_nodes, "nodes")
    if etype is not None and len(etype):
        mend = "check edge_reltype.csv.gz"
        check_found("edge types", int(etype.max()) + 1, len(etype), mend)
    return HeteroGraph(edges[:, 0], edges[:, 1], etype, num_nodes=num_nodes)


def _edges(folder: Path) -> np.ndarray:
    edges = integers(folder / "edge.csv.gz", 2)
    check_edge_count(folder, len(edges))
    return edges


def check_edge_count(folder: Path, count: int) -> None:
    """Raises `GraphFileError` if a folder states another count of edges than its file has."""
    stated_file = folder / "num-edge-list.csv.gz"
    if stated_file.is_file() and (stated := int(integers(stated_file, 1).sum())) != count:
        raise GraphFileError(
            f"{folder / 'edge.csv.gz'} has {count} edges but {stated_file.name} states "
            f"{stated}: fetch both again"
        )


def integers(path: Path, columns: int) -> np.ndarray:
    """A gzipped CSV of integers without a header, int64 [rows, columns]."""
    with reading(path, "a CSV of integers"):
        # Gzip shrinks digits about fourfold.
        check_memory(path, 16 * check_file(path), "its text")
        names = [str(i) for i in range(columns)]
        table = pyarrow.csv.read_csv(
            path,
            read_options=pyarrow.csv.ReadOptions(column_names=names, use_threads=False),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.int64()), null_values=[]
            ),
        )
        return np.stack([table[name].to_numpy() for name in names], axis=1)
