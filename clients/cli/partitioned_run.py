"""One run part by part: its rows come from a file and go to a file."""

from __future__ import annotations

import ctypes
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil

import hetune
from hetune import distributed
from hetune.clients.cli import console
from hetune.clients.cli.sources import GraphSource, LayerSource
from hetune.variants.errors import GraphFileError, InputError
from hetune.variants.partition.edge_folder import RECORD, EdgeFolder
from hetune.variants.partition.edge_sources import edge_source, is_edge_source
from hetune.variants.partition.external import partition_edges
from hetune.variants.partition.partitions import GraphPartitions, Partitions
from hetune.variants.partition.row_files import identity_of
from hetune.variants.partition.row_streams import check_ending
from hetune.variants.partition.run import rows_of, run_partitions

_ARENA_MAX = -8  # of malloc.h
_LEAST = 1 << 26
"""Bytes that are worth trying with."""


@dataclass(frozen=True, slots=True)
class PartitionedRun:
    """What to run.

    Attributes:
        graph: Where the graph comes from: a folder of partitions, a file of edges, or any other
            graph, which is held in memory.
        layer: Which layer.
        features: The file of its input.
        out: The file to write.
        memory: Bytes that the process may take, or a part in a worker of Ray.
        variant: The variant to run; the selector's choices if None.
        ray: Whether parts are tasks of a Ray cluster.
        address: Of the cluster; as of `hetune.distributed.run` if None.
    """

    graph: GraphSource
    layer: LayerSource
    features: Path | None
    out: Path | None
    memory: int
    variant: str | None
    ray: bool
    address: str | None

    def perform(self, say: Callable[[str], None]) -> None:
        """Runs the layer, or goes on where an equal run was cut off; says what that took.

        Raises:
            InputError: A file is missing, or there is too little memory.
            HetuneError: As its parts do.
        """
        if self.features is None or self.out is None:
            raise InputError("--memory: give --features and --out")
        check_ending(self.out)
        given = self.features.resolve(), Path(self.graph.name).resolve()
        edges = self.out.with_name(f"{self.out.name}.edges")
        if not {self.out.resolve(), edges.resolve()}.isdisjoint(given):
            raise InputError(f"--out: {self.out} is what is read: name another file")
        _share_heap()
        start = time.perf_counter()
        partitions = self._partitions(self.features, edges)
        say(
            f"{self.graph.name}: {console.counted(partitions.num_nodes, 'node')}, "
            f"{console.counted(partitions.num_edges, 'edge')} in "
            f"{console.counted(len(partitions.bounds) - 1, 'range')}, read in "
            f"{console.seconds(time.perf_counter() - start)}"
        )
        if self.layer.graph_for(partitions.types) is not partitions.types:
            raise InputError(
                f"{self.graph.name} has an edge type that joins several pairs of node types, and "
                f"{self.layer.kind} wants a type for each: give HeteroGraph.canonicalize()'s"
            )
        layer = hetune.compile(self.layer.module(partitions.types))
        assert isinstance(layer, hetune.CompiledLayer)
        run, own, why = run_partitions, 0, ""
        if self.ray:
            run = partial(distributed.run, address=self.address)
        else:
            own = psutil.Process().memory_info().rss
            why = f"the process itself takes {console.size(own)}: "
        if self.memory < own + _LEAST:
            raise InputError(f"--memory: {why}give {console.size(own + _LEAST)} at least")
        start = time.perf_counter()
        with console.progress_bar("edges", left=True) as update:
            what = layer, partitions, self.features, self.out
            rows = run(*what, memory=self.memory - own, variant=self.variant, progress=update)
        took = console.seconds(time.perf_counter() - start)
        say(f"wrote {list(rows.shape)} float32 to {self.out} in {took}")
        if isinstance(partitions, EdgeFolder) and partitions.path == edges:  # made for this run
            shutil.rmtree(edges, ignore_errors=True)

    def _partitions(self, features: Path, folder: Path) -> Partitions:
        """Those there are, those of a file, or of a graph in memory."""
        path = Path(self.graph.name)
        if (path / RECORD).is_file():
            return _verified(path)
        is_changed = self.graph.inverse or self.graph.self_loops
        is_plain = self.graph.format is None and not self.graph.read and not is_changed
        if not (is_plain and is_edge_source(path)):
            return GraphPartitions(self.layer.graph_for(self.graph.open()))
        num_nodes = None  # as the file says; the last nodes may have no edges
        if (source := edge_source(path)).node_counts is None:
            num_nodes = rows_of(features, None).shape[0]
        with suppress(GraphFileError):
            kept = EdgeFolder(folder)
            if kept.source == identity_of(source.path) and num_nodes in (None, kept.num_nodes):
                return _verified(folder)
        return partition_edges(path, folder, num_nodes=num_nodes)


def _verified(folder: Path) -> EdgeFolder:
    EdgeFolder(folder).verify()
    return EdgeFolder(folder)  # pages that were read are no longer the process's


def _share_heap() -> None:
    """Lets threads take what others have freed, where glibc would give each a heap of its own."""
    with suppress(AttributeError):
        ctypes.CDLL(None).mallopt(_ARENA_MAX, 1)
