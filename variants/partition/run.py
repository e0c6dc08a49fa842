"""Layers on a graph part by part: rows come from files, and go to files."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
from torch import Tensor

from hetune.variants.errors import InputError, MemoryLimitError, PartitionError
from hetune.variants.exhaustion import is_out_of_memory
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.partition.journal import FinishedPart, Journal
from hetune.variants.partition.layers import (
    PartitionedLayer,
    RowFunction,
    partitioned_layers,
    run_part,
)
from hetune.variants.partition.partitions import GraphPartitions, Partitions
from hetune.variants.partition.row_files import (
    RowsLike,
    RowWriter,
    digest_of,
    identity_of,
    open_rows,
)
from hetune.variants.registry.atomic_files import sync_folder
from hetune.variants.runtime.compiled import CompiledLayer

Progress: TypeAlias = Callable[[int, int], None]
"""Called with the edges that are done and those of all layers."""


def run_partitions(
    model: CompiledLayer | Sequence[CompiledLayer | RowFunction],
    graph: HeteroGraph | Partitions,
    features: RowsLike,
    out: str | os.PathLike[str],
    *,
    memory: int,
    variant: str | None = None,
    progress: Progress | None = None,
) -> np.ndarray:
    """Runs layers on a graph part by part, and writes the last one's rows to a file.

    A part is a range of nodes and all edges into them; it is as large as memory allows. The
    variant is chosen for each part. With `variant`, rows have the same bits as in memory.

    Beside `out` there is a folder of the same name and ".work" until the rows are complete: other
    layers' rows and a journal of what is finished. An equal call goes on from there, after a crash
    or a full disk, too.

    Args:
        model: A compiled layer, or several in order, with functions of rows between them.
        graph: The whole graph, or its partitions, which may be on the disk.
        features: Rows of all nodes, [N, width].
        out: The `.npy` file to write, float32 [N, width of the result].
        memory: Most bytes that a part may take, beside its rows in files and the process itself.
        variant: Id of the variant to run on all parts.
        progress: Told how far it is.

    Returns:
        The rows, mapped to the file.

    Raises:
        InputError: A layer is not compiled, or reads more than its nodes' edges; rows do not fit.
        MemoryLimitError: The smallest part does not fit.
        PartitionError: A file cannot be written, or another process is writing it.
        VariantError: There is no such variant.
    """
    layers = partitioned_layers([model] if isinstance(model, CompiledLayer) else model)
    partitions = GraphPartitions(graph) if isinstance(graph, HeteroGraph) else graph
    rows = open_rows(features, partitions.num_nodes)
    if rows.shape[1] != (width := layers[0].adapter.width):
        raise InputError(f"features have rows of {rows.shape[1]}, and the layer takes {width}")
    path = Path(out)
    work = path.with_name(f"{path.name}.work")
    run = {
        "format": 1,
        "graph": [partitions.digest, digest_of(partitions.bounds)],
        "features": identity_of(features),
        "model": [layer.digest() for layer in layers],
        "variant": variant,
    }
    try:
        work.mkdir(exist_ok=True)
    except OSError as error:
        raise PartitionError(f"cannot make {work} ({error.strerror}): name another file") from error
    with Journal(work / "journal.jsonl", run) as journal:
        todo = _Progress(progress, partitions.num_edges * len(layers))
        for number, layer in enumerate(layers):
            file, width = work / f"{number}.npy", layer.adapter.result_width
            with RowWriter(file, partitions.num_nodes, width) as writer:
                given = number, layer, partitions, writer, journal, memory, variant
                _LayerRun(*given).perform(rows, todo)
            rows = writer.read()
        writer.path.replace(path)
        sync_folder(path.resolve().parent)
        shutil.rmtree(work)
    return open_rows(path, partitions.num_nodes)


@dataclass(slots=True)
class _LayerRun:
    number: int
    layer: PartitionedLayer
    partitions: Partitions
    writer: RowWriter
    journal: Journal
    memory: int
    variant: str | None
    share: float = 0.8
    """Of the memory that a part is planned for; less where some did not fit."""

    def perform(self, rows: np.ndarray, progress: _Progress) -> None:
        """Computes the rows that are not written yet."""
        starts, bounds = self.partitions.starts, self.partitions.bounds
        first, finished = 0, self._finished()
        for stop, after in [*finished, (len(bounds) - 1, len(bounds) - 1)]:
            while first < stop:
                last = self._last(first, stop)
                while (found := self._attempt(rows, first, last)) is None:
                    last, self.share = (first + last) // 2, self.share / 2
                low, high = int(bounds[first]), int(bounds[last])
                digest = self.writer.write(low, found[0])
                self.journal.add(FinishedPart(self.number, low, high, digest, found[1]))
                progress.add(int(starts[last] - starts[first]))
                first = last
            progress.add(int(starts[after] - starts[stop]))
            first = after

    def _attempt(self, rows: np.ndarray, first: int, last: int) -> tuple[Tensor, str] | None:
        """The rows of some ranges and what computed them; None where several do not fit."""
        given = self.layer, self.partitions, rows, first, last, self.memory, self.variant
        try:
            return run_part(*given)
        except (MemoryLimitError, MemoryError, RuntimeError) as error:
            if not (isinstance(error, MemoryLimitError) or is_out_of_memory(error)):
                raise
            if last - first == 1:
                raise MemoryLimitError(f"{error}; give more memory") from error
        return None

    def _finished(self) -> list[tuple[int, int]]:
        """Ranges whose rows are there as the journal says, ascending."""
        bounds, rows = self.partitions.bounds, self.writer.read()
        found = []
        for part in self.journal.parts:
            if part.layer == self.number and digest_of(rows[part.first : part.last]) == part.digest:
                first, last = np.searchsorted(bounds, [part.first, part.last]).tolist()
                found.append((first, last))
        return sorted(set(found))

    def _last(self, first: int, stop: int) -> int:
        """The end of the ranges that run together with the first one: as many as should fit."""
        last = first + 1
        while last < stop and self._bytes(first, last + 1) <= self.share * self.memory:
            last += 1
        return last

    def _bytes(self, first: int, last: int) -> int:
        starts, bounds = self.partitions.starts, self.partitions.bounds
        edges, targets = (int(each[last] - each[first]) for each in (starts, bounds))
        return self.layer.bytes_of(edges, targets, self.partitions.num_nodes)


class _Progress:
    def __init__(self, tell: Progress | None, total: int) -> None:
        self._tell, self._done, self._total = tell, 0, total

    def add(self, edges: int) -> None:
        self._done += edges
        if self._tell is not None:
            self._tell(self._done, self._total)
