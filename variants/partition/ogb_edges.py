"""Edges of OGB's raw folders in chunks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from hetune.variants.errors import GraphFileError
from hetune.variants.graph.convert.edge_index_dict import relation_names
from hetune.variants.graph.loaders.file_errors import check_file, reading
from hetune.variants.graph.loaders.ogb import (
    check_edge_count,
    node_count,
    node_counts,
    raw_folder,
    relations,
)
from hetune.variants.partition.partitions import RangeEdges

_BLOCK = 1 << 22
"""Bytes of text that are read at once."""


@dataclass(frozen=True, slots=True)
class OgbFolder:
    """An OGB raw folder as `hetune.load` reads it: nodes and edge types have the same numbers.

    Attributes:
        path: The folder.
        node_counts: Nodes of each type.
        names: Names of types, as `HeteroGraph` takes them, where it has any.

    Raises:
        GraphFileError: It is none, or a file cannot be read.
    """

    path: Path
    node_counts: tuple[int, ...] = field(init=False)
    names: dict[str, Any] = field(init=False, default_factory=dict)
    _relations: tuple[_Relation, ...] = field(init=False)

    def __post_init__(self) -> None:
        folder = raw_folder(self.path)
        if folder is None:
            raise GraphFileError(f"{self.path} is no OGB raw folder: give the one called raw")
        if not (folder / "relations").is_dir():
            counts: tuple[int, ...] = (node_count(folder),)
            types = folder / "edge_reltype.csv.gz"
            nodes = 0, counts[0]
            found = [_Relation(folder, nodes, nodes, 0, types if types.is_file() else None)]
        else:
            known, folders = node_counts(folder), relations(folder)
            ends = [end for source, _, target in folders for end in (source, target)]
            ntypes = list(dict.fromkeys([*known, *ends]))
            counts = tuple(known.get(name, 0) for name in ntypes)
            first = dict(zip(ntypes, np.cumsum([0, *counts]).tolist(), strict=False))
            ranges = {name: (first[name], known.get(name, 0)) for name in ntypes}
            found = [
                _Relation(place, ranges[source], ranges[target], number)
                for number, ((source, _, target), place) in enumerate(folders.items())
            ]
            self.names.update(
                ntype_names=ntypes,
                etype_names=relation_names([*folders]),
                canonical_etypes=[*folders],
            )
        object.__setattr__(self, "node_counts", counts)
        object.__setattr__(self, "_relations", tuple(found))

    def chunks(self) -> Iterator[RangeEdges]:
        """The edges relation by relation, int64.

        Raises:
            GraphFileError: A file cannot be read, or has another length than is stated, or an id is
                no node of its type.
        """
        for relation in self._relations:
            yield from relation.chunks()


@dataclass(frozen=True, slots=True)
class _Relation:
    """The edges of a folder: first node and number of nodes of either end, and their types."""

    folder: Path
    sources: tuple[int, int]
    targets: tuple[int, int]
    etype: int
    types: Path | None = None
    """The file that has a type for each edge, in place of one for all."""

    def chunks(self) -> Iterator[RangeEdges]:
        count = 0
        kinds = None if self.types is None else _Column(self.types)
        for src, dst in _chunks(self.folder / "edge.csv.gz", 2):
            etype = np.full(len(src), self.etype) if kinds is None else kinds.next(len(src))
            if len(etype) < len(src):
                raise GraphFileError(f"{self.types} ends before the edges do: fetch it again")
            if len(etype) and etype.min() < 0:
                raise GraphFileError(f"{self.types} has the type {etype.min()}: fetch it again")
            self._check(src, self.sources)
            self._check(dst, self.targets)
            count += len(src)
            yield RangeEdges(src + self.sources[0], dst + self.targets[0], etype)
        check_edge_count(self.folder, count)
        if kinds is not None and len(kinds.next(1)):
            raise GraphFileError(f"{self.types} has more than the {count} edges: fetch it again")

    def _check(self, ids: np.ndarray, nodes: tuple[int, int]) -> None:
        if len(ids) and not 0 <= ids.min() <= ids.max() < nodes[1]:
            wrong = ids.min() if ids.min() < 0 else ids.max()
            raise GraphFileError(
                f"{self.folder / 'edge.csv.gz'} has the node {wrong}, of {nodes[1]}: fetch it again"
            )


class _Column:
    """A file of one number in each line, of which so many are asked for at a time."""

    def __init__(self, path: Path) -> None:
        self._path, self._chunks = path, _chunks(path, 1)
        self._left = np.zeros(0, np.int64)

    def next(self, count: int) -> np.ndarray:
        """As many as that, or those that are left."""
        parts = [self._left]
        while sum(map(len, parts)) < count and (found := next(self._chunks, None)) is not None:
            parts.append(found[0])
        joined = np.concatenate(parts)
        self._left = joined[count:]
        return joined[:count]


def _chunks(path: Path, columns: int) -> Iterator[tuple[np.ndarray, ...]]:
    """Columns of a gzipped text of integers, in chunks; none of an empty one."""
    import pyarrow as pa
    import pyarrow.csv  # seldom needed

    names = [str(number) for number in range(columns)]
    with reading(path, "a CSV of integers"):
        check_file(path)
        with pyarrow.csv.open_csv(
            path,
            read_options=pyarrow.csv.ReadOptions(column_names=names, block_size=_BLOCK),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.int64()), null_values=[]
            ),
        ) as reader:
            for batch in reader:
                yield tuple(column.to_numpy() for column in batch.columns)
