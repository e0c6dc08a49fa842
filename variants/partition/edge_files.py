"""Edges of files in chunks: a file's edges are never held all at once."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from hetune.variants.errors import GraphFileError
from hetune.variants.graph.loaders.columns import usual_places, usual_roles
from hetune.variants.graph.loaders.file_errors import check_file, reading
from hetune.variants.graph.loaders.npz_members import member_chunks, member_header
from hetune.variants.partition.partitions import RangeEdges

CHUNK = 1 << 20
"""Edges that are read at once."""
ENDINGS = (".npz", ".npy", ".parquet", ".csv", ".tsv", ".txt")
_TYPE_NAMES = ("ntype_names", "etype_names", "canonical_etypes")


@dataclass(frozen=True, slots=True)
class EdgeFile:
    """A file of edges whose nodes and edge types are integers.

    `.npz` as `hetune.load` reads it, or with `edge_index` and `num_nodes_list` as OGB has it;
    `.npy` of shape [2, E] (sources, destinations) or [3, E] (and edge types); `.parquet` and `.csv`
    with columns `src`, `dst` and perhaps `etype`; `.tsv` and `.txt` with two columns, or with the
    edge type between the ends.

    Attributes:
        path: The file.
        node_counts: Nodes of each type, where it says so.
        names: Names of types, as `HeteroGraph` takes them, where it has any.

    Raises:
        GraphFileError: It cannot be read.
    """

    path: Path
    node_counts: tuple[int, ...] | None = field(init=False, default=None)
    names: dict[str, Any] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        check_file(self.path)
        if self.path.suffix not in ENDINGS:
            raise GraphFileError(
                f"{self.path} is not read in parts: convert it to one of {', '.join(ENDINGS)}"
            )
        if self.path.suffix == ".npz":
            with reading(self.path, "an .npz graph"), np.load(self.path) as archive:
                names = {name: archive[name].tolist() for name in _TYPE_NAMES if name in archive}
                self.names.update(names)
                if "ntype" in archive:
                    object.__setattr__(self, "node_counts", self._node_counts())
                elif "num_nodes_list" in archive:
                    given = archive["num_nodes_list"].astype(np.int64, casting="safe")
                    (count,) = given.tolist()
                    object.__setattr__(self, "node_counts", (count,))

    def chunks(self) -> Iterator[RangeEdges]:
        """The edges in the file's order, int64; types are 0 where it has none.

        Raises:
            GraphFileError: It cannot be read, or has an id that is no number from 0.
        """
        kind = {".npz": _npz_chunks, ".npy": _npy_chunks, ".parquet": _parquet_chunks}
        with reading(self.path, f"edges in an {self.path.suffix} file"):
            for found in kind.get(self.path.suffix, _text_chunks)(self.path):
                ids = [np.asarray(column).astype(np.int64, casting="safe") for column in found]
                if len(ids) == 2:
                    ids.append(np.zeros(len(ids[0]), np.int64))
                if len({len(column) for column in ids}) > 1:
                    raise GraphFileError(f"{self.path} has columns of different lengths")
                for name, column in zip(RangeEdges._fields, ids, strict=True):
                    if len(column) and column.min() < 0:
                        raise GraphFileError(f"{self.path} has the {name} {column.min()}")
                yield RangeEdges(*ids)

    def _node_counts(self) -> tuple[int, ...]:
        counts, last = np.zeros(len(self.names.get("ntype_names", ())), np.int64), 0
        for ids in member_chunks(self.path, "ntype", CHUNK):
            if len(ids) and (ids[0] < last or (np.diff(ids) < 0).any()):
                raise GraphFileError(f"{self.path}: ntype descends: number nodes type by type")
            last = ids[-1] if len(ids) else last
            found = np.bincount(ids, minlength=len(counts))
            counts = np.pad(counts, (0, len(found) - len(counts))) + found
        return tuple(counts.tolist())


def _npy_chunks(path: Path) -> Iterator[tuple[np.ndarray, ...]]:
    edges = np.load(path, mmap_mode="r", allow_pickle=False)
    if edges.ndim != 2 or edges.shape[0] not in (2, 3):
        raise GraphFileError(f"{path} has the shape {list(edges.shape)}: give [2, E] or [3, E]")
    for first in range(0, edges.shape[1], CHUNK):
        yield tuple(edges[:, first : first + CHUNK])


def _npz_chunks(path: Path) -> Iterator[tuple[np.ndarray, ...]]:
    with zipfile.ZipFile(path) as archive:
        there = set(archive.namelist())
    if "edge_index.npy" in there:  # as OGB has it, sources before destinations
        _check_shape(path, "edge_index", 2)
        columns = [member_chunks(path, "edge_index", CHUNK, row) for row in (0, 1)]
    else:
        names = _columns(path, [name for name in RangeEdges._fields if f"{name}.npy" in there])
        for name in names:
            _check_shape(path, name)
        columns = [member_chunks(path, name, CHUNK) for name in names]
    yield from zip(*columns, strict=True)


def _check_shape(path: Path, name: str, *rows: int) -> None:
    """Refuses an array that is not of so many rows of edges."""
    shape = member_header(path, name)[0]
    if shape[:-1] != rows or not shape:
        wanted = ", ".join([*map(str, rows), "E"])
        raise GraphFileError(f"{path}: {name} has the shape {list(shape)}: give [{wanted}]")


def _parquet_chunks(path: Path) -> Iterator[tuple[np.ndarray, ...]]:
    import pyarrow.parquet  # seldom needed

    with pyarrow.parquet.ParquetFile(path) as file:
        columns = _columns(path, file.schema_arrow.names)
        for batch in file.iter_batches(CHUNK, columns=columns):
            yield tuple(batch.column(name).to_numpy() for name in columns)


def _text_chunks(path: Path) -> Iterator[tuple[np.ndarray, ...]]:
    import pyarrow.csv  # seldom needed

    with path.open("rb") as file:
        line = file.readline(CHUNK)
    is_csv = path.suffix == ".csv"
    delimiter = "," if is_csv else "\t" if b"\t" in line else " "
    names = usual_roles(len(line.split(delimiter.encode())))
    reader = pyarrow.csv.open_csv(
        path,
        read_options=pyarrow.csv.ReadOptions(
            column_names=None if is_csv else names, block_size=CHUNK << 4
        ),
        parse_options=pyarrow.csv.ParseOptions(delimiter=delimiter),
    )
    with reader:
        columns = _columns(path, reader.schema.names)
        for batch in reader:
            yield tuple(batch.column(name).to_numpy() for name in columns)


def _columns(path: Path, names: list[str]) -> list[str]:
    """The columns of `RangeEdges`, by their names."""
    places = usual_places(names)
    for name in ("src", "dst"):
        if name not in places:
            raise GraphFileError(f"{path} has no column {name!r}, only {names}: rename one")
    return [names[places[role]] for role in RangeEdges._fields if role in places]
