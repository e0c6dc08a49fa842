"""A graph's partitions on the disk."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from hetune.variants.errors import GraphFileError
from hetune.variants.graph.index import RelationStats
from hetune.variants.graph.loaders import load
from hetune.variants.graph.loaders.file_errors import reading
from hetune.variants.partition.partitions import Partitions, RangeEdges
from hetune.variants.partition.row_files import digest_of
from hetune.variants.registry.sealed_json import FIELD, unsealed

RECORD = "edges.json"
"""Written last: a folder without it is not finished."""
TYPES = "types.npz"


class EdgeFolder(Partitions):
    """Partitions in a folder, as `partition_edges` writes it.

    `src.npy`, `dst.npy` and `etype.npy` hold a column of all edges each, int32 [E], by range;
    `edges.json` has counts, ranges and digests, and `types.npz` is a graph with the same types.
    Pickled, it is its path.

    Args:
        path: The folder.

    Attributes:
        source: The file that the edges come from, its size and its time.

    Raises:
        GraphFileError: It is none, is not finished, or is damaged.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        with reading(self.path / RECORD, "a folder of partitions"):
            sealed = json.loads((self.path / RECORD).read_bytes())
            record: Mapping[str, Any] = unsealed(sealed)
            self.digest, self.source = sealed[FIELD], record["source"]
            self._digests: Mapping[str, str] = record["columns"]
            self.node_offsets = tuple(record["node_offsets"])
            self.bounds = np.array(record["bounds"], np.int64)
            self.starts = np.array(record["starts"], np.int64)
            stats = record["relation_stats"]
            self.stats = None if stats is None else RelationStats(*map(np.array, stats))
        self.num_edges = int(self.starts[-1])
        self.types = load(self.path / TYPES)
        for name, column in self._columns.items():
            if column.shape != (self.num_edges,) or column.dtype != np.int32:
                raise GraphFileError(f"{self.path}: {name}.npy is damaged: partition it anew")

    def edges(self, first: int, last: int) -> RangeEdges:
        """In the order of the file that they come from, range by range."""
        here = slice(self.starts[first], self.starts[last])
        found = RangeEdges(*(self._columns[name][here] for name in RangeEdges._fields))
        targets = self.bounds[first], self.bounds[last]
        limits = (0, self.num_nodes), targets, (0, self.types.num_etypes)
        for name, ids, (low, high) in zip(found._fields, found, limits, strict=True):
            if len(ids) and not low <= ids.min() <= ids.max() < high:
                raise GraphFileError(f"{self.path}: {name}.npy is damaged: partition it anew")
        return found

    def verify(self) -> None:
        """Reads all of it.

        Raises:
            GraphFileError: A column has another digest than when it was written.
        """
        for name, column in self._columns.items():
            if digest_of(column) != self._digests[name]:
                raise GraphFileError(f"{self.path}: {name}.npy is damaged: partition it anew")

    @cached_property
    def _columns(self) -> Mapping[str, np.ndarray]:
        files = {name: self.path / f"{name}.npy" for name in RangeEdges._fields}
        with reading(self.path, "a folder of partitions"):
            return {name: np.load(file, mmap_mode="r") for name, file in files.items()}

    def __reduce__(self) -> Any:
        return EdgeFolder, (self.path,)
