"""Layers on a graph part by part: rows come from files, and go to files."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import numpy as np

from hetune.variants.errors import HetuneError, InputError, PartitionError
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.partition.executor import Executor, InOrder, LayerParts
from hetune.variants.partition.journal import FinishedPart, Journal
from hetune.variants.partition.model_layers import PartitionedModel, partitioned_layers
from hetune.variants.partition.partitions import GraphPartitions, Partitions
from hetune.variants.partition.row_files import (
    RowsLike,
    RowWriter,
    check_rows,
    checksum_of,
    digest_of,
    file_of,
    identity_of,
    open_rows,
)
from hetune.variants.partition.row_streams import ENDINGS, WRITTEN, RowStream, check_ending, pack
from hetune.variants.registry.atomic_files import sync_folder
from hetune.variants.runtime.choice import check_variant

Progress: TypeAlias = Callable[[int, int], None]
"""Called with the edges that are done and those of all layers."""

MOST_SHARE, RECOVERY = 0.8, 1.02
"""Of the memory: what a part is planned for, and how that grows with each part that fits."""
COMMIT_SECONDS = 1.0
"""Seconds between waits for the disk: a crash costs as much work."""


def run_partitions(
    model: PartitionedModel,
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
    variant is chosen once for parts of about one size. With `variant`, rows have the bits of a run
    in memory.

    Beside `out` there is a folder of the same name and ".work" until the rows are complete: other
    layers' rows and a journal of what is finished. An equal call goes on from there, after a crash
    or a full disk, too. A call that is refused before a part is finished leaves nothing.

    Args:
        model: A compiled layer or model, or several layers in order, with functions of rows between
            them. Of a model that is called with dictionaries, rows of all types of nodes are in
            the graph's order; those of types that it gives no rows for mean nothing.
        graph: The whole graph, or its partitions, which may be on the disk.
        features: Rows of all nodes, [N, width]: in memory, an `.npy` file, or one as of
            `RowStream`, which is unpacked beside `out` first.
        out: The file to write, float32 [N, width of the result]: `.npy`, or `.arrow`, `.feather` or
            `.parquet` with a column of lists.
        memory: Most bytes that a part, and what is read of the next one meanwhile, may take, beside
            rows in files and the process itself.
        variant: Id of the variant to run on all parts.
        progress: Told how far it is.

    Returns:
        The rows, mapped to the `.npy` file, which goes with them where another kind is wanted.

    Raises:
        InputError: A layer is not compiled, or reads more than its nodes' edges; rows do not fit,
            or are written to meanwhile.
        MemoryLimitError: The smallest part does not fit.
        PartitionError: A file cannot be written, or another process is writing it.
        VariantError: There is no such variant.
    """
    with InOrder() as executor:
        return run_on(executor, model, graph, features, out, memory, variant, progress)


def run_on(
    executor: Executor,
    model: PartitionedModel,
    graph: HeteroGraph | Partitions,
    features: RowsLike,
    out: str | os.PathLike[str],
    memory: int,
    variant: str | None,
    progress: Progress | None,
    *,
    planned: int | None = None,
) -> np.ndarray:
    """As `run_partitions`, with parts computed by an executor.

    Parts are planned for less than `memory` where `planned` is less; a hub's may take all of it.
    """
    if not isinstance(memory, int) or memory < 1:
        raise InputError(f"memory={memory!r}: give bytes, an integer from 1")
    partitions = GraphPartitions(graph.to("cpu")) if isinstance(graph, HeteroGraph) else graph
    given = rows_of(features, partitions.num_nodes)
    layers = partitioned_layers(model, partitions.types, given.shape[1])
    for layer in layers:
        layer.check_rows(given.shape[1], partitions.num_nodes)
    rows = Path(features).absolute() if isinstance(features, str | os.PathLike) else features
    path = Path(out)
    if file_of(features) == path.resolve():
        raise InputError(f"{path} has the features, which would be lost: name another file")
    if path.is_dir():
        raise InputError(f"{path} is a folder: name a file")
    check_ending(path)
    for layer in layers:  # before the journal of another run is dropped
        layer.layer.check_graph(partitions.types)
        if variant is not None:
            check_variant(variant, layer.layer.variants)
    work = work_folder(path)
    run = {
        "format": 2,
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
        try:
            if isinstance(given, RowStream):
                rows = work.absolute() / "features.npy"
                if not (journal.parts and rows.exists()):  # of an earlier run's features
                    given.unpack(rows)
            made: dict[int, RowsLike] = {-1: rows}
            for number, layer in enumerate(layers):
                read = [
                    made[each.layer] if each.table is None else each.table for each in layer.inputs
                ]
                file = (work / f"{number}.npy").absolute()
                with RowWriter(file, partitions.num_nodes, layer.result_width) as writer:
                    parts = LayerParts(layer, partitions, tuple(read), memory, variant)
                    layer_run = _LayerRun(number, parts, writer, journal, planned or memory)
                    layer_run.perform(executor, todo)
                made[number] = file
        except PartitionError:
            raise
        except HetuneError:  # refused: an equal call would be, too
            if not journal.parts:
                shutil.rmtree(work, ignore_errors=True)
            raise
        if isinstance(features, str | os.PathLike) and identity_of(features) != run["features"]:
            raise InputError("features were written to while they were read: run it again")
        found, file = writer.read(), writer.path
        if path.suffix in WRITTEN:
            file = work / f"out{path.suffix}"
            pack(found, file)
        file.replace(path)
        sync_folder(path.resolve().parent)
        shutil.rmtree(work, ignore_errors=True)  # the rows are complete, whatever is left
    return found


def rows_of(given: RowsLike, num_nodes: int | None) -> np.ndarray | RowStream:
    """Rows of floats, of any N if None, in memory, in a mapped file or to be unpacked.

    Raises:
        InputError: They cannot be read, or are no float rows of so many nodes.
    """
    if not (isinstance(given, str | os.PathLike) and os.fspath(given).endswith(ENDINGS)):
        return open_rows(given, num_nodes)
    found = RowStream(Path(given))
    check_rows(found.shape[0], num_nodes)
    return found


def work_folder(out: Path) -> Path:
    """Where a run keeps what is finished, until all of its rows are."""
    return out.with_name(f"{out.name}.work")


@dataclass(slots=True)
class _LayerRun:
    number: int
    parts: LayerParts
    writer: RowWriter
    journal: Journal
    planned: int
    """Bytes that a part should take."""
    share: float = MOST_SHARE
    """Of these, what it is planned for; half as much where one did not fit, then more."""
    written: list[FinishedPart] = field(default_factory=list)
    """Parts that the disk may not have yet."""
    due: float = 0.0
    """When it is to have them, by the monotonic clock."""

    def perform(self, executor: Executor, progress: _Progress) -> None:
        """Computes the rows that are not written yet."""
        gaps = self._gaps(progress)
        executor.begin(self.parts)
        try:
            self._fill(gaps, executor, progress)
        finally:
            self._commit()

    def _fill(self, gaps: list[tuple[int, int]], executor: Executor, progress: _Progress) -> None:
        starts, bounds = self.parts.partitions.starts, self.parts.partitions.bounds
        running = dict[tuple[int, int], float]()
        while gaps or running:
            while gaps and len(running) < executor.slots:
                first, stop = gaps.pop()
                last = self._last(first, stop, executor.least)
                if last < stop:
                    gaps.append((last, stop))
                executor.start(first, last)
                running[first, last] = self.share
            (first, last), found = executor.result()
            planned = running.pop((first, last))
            if found is None:
                self.share = min(self.share, planned / 2)
                middle = (first + last) // 2
                gaps += [(middle, last), (first, middle)]
                continue
            self.share = min(self.share * RECOVERY, MOST_SHARE)
            low, high = int(bounds[first]), int(bounds[last])
            checksum = self.writer.write(low, found[0])
            self.written.append(FinishedPart(self.number, low, high, checksum, found[1]))
            found = None  # the next part needs the room
            progress.add(int(starts[last] - starts[first]))
            if time.monotonic() >= self.due:
                self._commit()

    def _commit(self) -> None:
        """Notes what is written, once the disk has it."""
        if self.written:
            self.writer.sync()
            self.journal.add(self.written)
        self.written, self.due = [], time.monotonic() + COMMIT_SECONDS

    def _gaps(self, progress: _Progress) -> list[tuple[int, int]]:
        """Ranges whose rows are not there as the journal says, descending."""
        partitions, rows = self.parts.partitions, self.writer.read()
        bounds, starts = partitions.bounds, partitions.starts
        first, gaps = 0, []
        for part in sorted(self.journal.parts, key=lambda part: part.first):
            if part.layer != self.number or not 0 <= part.first < part.last <= len(rows):
                continue
            if checksum_of(rows[part.first : part.last]) == part.checksum:
                stop, after = np.searchsorted(bounds, [part.first, part.last]).tolist()
                gaps += [(first, stop)] if first < stop else []
                progress.add(int(starts[max(first, after)] - starts[max(first, stop)]))
                first = max(first, after)
        gaps += [(first, len(bounds) - 1)] if first < len(bounds) - 1 else []
        return gaps[::-1]

    def _last(self, first: int, stop: int, least: int) -> int:
        """The end of the ranges that run together with the first one: as many as should fit."""
        starts, last = self.parts.partitions.starts, first + 1
        most = self.parts.partitions.num_edges // least
        while (
            last < stop
            and starts[last + 1] - starts[first] <= most
            and self.parts.bytes_of(first, last + 1) <= self.share * self.planned
        ):
            last += 1
        return last


class _Progress:
    def __init__(self, tell: Progress | None, total: int) -> None:
        self._tell, self._done, self._total = tell, 0, total

    def add(self, edges: int) -> None:
        self._done += edges
        if self._tell is not None:
            self._tell(self._done, self._total)
