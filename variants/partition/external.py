"""From a file of edges to partitions on the disk, by counting: no more than a chunk is held."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hetune.variants.errors import GraphError
from hetune.variants.graph._arrays import check_count, check_found
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.partition.edge_files import CHUNK
from hetune.variants.partition.edge_folder import RECORD, TYPES, EdgeFolder
from hetune.variants.partition.edge_sources import EdgeSource, edge_source
from hetune.variants.partition.journal import locked
from hetune.variants.partition.partitions import RANGE, RangeEdges, bounds_of
from hetune.variants.partition.row_files import allocated, digest_of, identity_of, writing
from hetune.variants.registry.atomic_files import write_atomically
from hetune.variants.registry.sealed_json import sealed

_BLOCK = 64
"""Nodes whose edges are counted together."""
_MARKS, _PASSES = 1 << 27, 32
"""Pairs that are marked at once, to count them, and how often edges are read for that at most."""


def partition_edges(
    path: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    *,
    num_nodes: int | None = None,
    num_etypes: int | None = None,
    size: int = RANGE,
) -> EdgeFolder:
    """Writes a folder with the edges of a file by ranges of destinations.

    The file is read twice. What a crash leaves behind is no `EdgeFolder`, and is written over; an
    error, such as a full disk, leaves no edges behind.

    Args:
        path: A file as of `EdgeFile`, or a folder as of `OgbFolder`.
        folder: Where to; its parent exists.
        num_nodes: N, by default as the file says, or the largest id plus one.
        num_etypes: R, likewise.
        size: About how many edges and nodes together a range has.

    Raises:
        GraphFileError: The file cannot be read.
        GraphError: Ids and counts do not fit.
        PartitionError: The folder cannot be written.
    """
    source, target = edge_source(Path(path)), Path(folder)
    identity = identity_of(source.path)
    counts, nodes, types = _counted(source)
    if num_nodes is None and source.node_counts is None:
        check_found("nodes", nodes, 2 * int(counts.sum()), "number them from 0, or pass num_nodes")
    if num_etypes is None and not source.names:
        check_found("edge types", types, int(counts.sum()), "number them from 0")
    node_counts = source.node_counts or (max(nodes, num_nodes or 0),)
    offsets = np.append(0, np.cumsum(node_counts))
    names = source.names.get("etype_names") or source.names.get("canonical_etypes")
    num_etypes = num_etypes or (len(names) if names else max(types, 1))
    given = num_nodes if num_nodes is not None else int(offsets[-1])
    if nodes > offsets[-1] or given != offsets[-1] or types > num_etypes:
        raise GraphError(
            f"{path} has nodes up to {nodes - 1} and edge types up to {types - 1}, but there are "
            f"to be {given} and {num_etypes}: give as many (nodes have a row of features each)"
        )
    check_count("num_nodes", given)
    blocks = np.zeros(-(-given // _BLOCK), np.int64)
    blocks[: len(counts)] = counts
    before = np.append(0, np.cumsum(blocks))
    cuts = bounds_of(before, _BLOCK, size)
    bounds, starts = np.minimum(cuts * _BLOCK, given), before[cuts]
    with writing(target):
        target.mkdir(exist_ok=True)
    files = [target / f"{name}.npy" for name in RangeEdges._fields]
    with writing(target), locked(target / "lock"), _kept_if_whole(files):
        (target / RECORD).unlink(missing_ok=True)
        columns = RangeEdges(*(allocated(file, (int(starts[-1]),), "<i4") for file in files))
        kinds = _placed(source, columns, bounds, starts, offsets)
        if identity_of(source.path) != identity:
            raise _changed(source)
        for column, file in zip(columns, files, strict=True):
            assert isinstance(column, np.memmap)
            column.flush()
            with file.open("rb") as written:
                os.fsync(written.fileno())
        _types(kinds, num_etypes, len(node_counts), source).save(target / TYPES)
        stats = _relation_stats(columns, bounds, starts, num_etypes)
        record = {
            "format": 1,
            "source": identity,
            "node_offsets": offsets.tolist(),
            "bounds": bounds.tolist(),
            "starts": starts.tolist(),
            "relation_stats": stats,
            "columns": {n: digest_of(c) for n, c in zip(RangeEdges._fields, columns, strict=True)},
        }
        write_atomically(target / RECORD, json.dumps(sealed(record)).encode(), 0o644)
    return EdgeFolder(target)


@contextmanager
def _kept_if_whole(files: list[Path]) -> Iterator[None]:
    """Takes no room on a disk that may be full, if they are not finished."""
    try:
        yield
    except BaseException:
        for file in files:
            file.unlink(missing_ok=True)
        raise


def _counted(source: EdgeSource) -> tuple[NDArray[np.int64], int, int]:
    """Edges into each block of nodes, and one more than the largest node and edge type."""
    counts, nodes, types = np.zeros(0, np.int64), 0, 0
    for edges in source.chunks():
        if len(edges.src):
            nodes = max(nodes, 1 + int(edges.src.max()), 1 + int(edges.dst.max()))
            types = max(types, 1 + int(edges.etype.max()))
            check_count("num_nodes", nodes)
            found = np.bincount(edges.dst // _BLOCK, minlength=len(counts))
            counts = np.pad(counts, (0, len(found) - len(counts))) + found
    return counts, nodes, types


def _placed(
    source: EdgeSource,
    columns: RangeEdges,
    bounds: NDArray[np.int64],
    starts: NDArray[np.int64],
    offsets: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Appends each edge to its range; gives the (etype, source type, destination type) there are.

    Raises:
        GraphError: The file is not what it was when it was counted.
    """
    free, kinds, ntypes = starts[:-1].copy(), np.zeros((0, 3), np.int64), len(offsets) - 1
    for edges in source.chunks():
        at = np.searchsorted(bounds, edges.dst, "right") - 1
        order = np.argsort(at.astype(np.min_scalar_type(len(bounds))), kind="stable")
        found = np.bincount(at, minlength=len(free))
        is_new = len(found) > len(free) or (edges.src >= offsets[-1]).any()
        if is_new or (free + found > starts[1:]).any():
            raise _changed(source)
        rank = np.arange(len(at)) - np.repeat(np.cumsum(found) - found, found)
        place = np.repeat(free, found) + rank
        for column, ids in zip(columns, edges, strict=True):
            column[place] = ids[order]
        free += found
        ends = [np.searchsorted(offsets, ids, "right") - 1 for ids in (edges.src, edges.dst)]
        keys = np.unique((edges.etype * ntypes + ends[0]) * ntypes + ends[1])
        new = np.stack([keys // ntypes**2, keys // ntypes % ntypes, keys % ntypes], 1)
        kinds = np.unique(np.concatenate([kinds, new]), axis=0)
    if (free != starts[1:]).any():
        raise _changed(source)
    return kinds


def _changed(source: EdgeSource) -> GraphError:
    return GraphError(f"{source.path} was written to while it was read: start again")


def _types(
    kinds: NDArray[np.int64], num_etypes: int, num_ntypes: int, source: EdgeSource
) -> HeteroGraph:
    """A graph with a node of each type, and an edge of each kind."""
    etype, src, dst = np.ascontiguousarray(kinds.T)
    options: dict[str, Any] = {"num_etypes": num_etypes, "num_ntypes": num_ntypes, **source.names}
    return HeteroGraph(src, dst, etype, np.arange(num_ntypes), **options)


def _relation_stats(
    columns: RangeEdges, bounds: NDArray[np.int64], starts: NDArray[np.int64], num_etypes: int
) -> list[list[int]] | None:
    """Edges, source pairs and destination pairs of each relation; None where it takes too long."""
    nodes = int(bounds[-1])
    keys = nodes * num_etypes
    if keys > _MARKS * _PASSES:
        return None
    edges, sources, targets = (np.zeros(num_etypes, np.int64) for _ in range(3))
    for first, last, low, high in zip(starts, starts[1:], bounds, bounds[1:], strict=False):
        etype = columns.etype[first:last].astype(np.int64)
        edges += np.bincount(etype, minlength=num_etypes)
        pairs = np.unique(etype * (high - low) + columns.dst[first:last] - low)
        targets += np.bincount(pairs // (high - low), minlength=num_etypes)
    for first in range(0, keys, _MARKS):
        is_met = np.zeros(min(_MARKS, keys - first), bool)
        for src, types in _chunks(columns):
            keys_here = types.astype(np.int64) * nodes + src - first
            is_met[keys_here[(keys_here >= 0) & (keys_here < len(is_met))]] = True
        for number in range(first // nodes, -(-(first + len(is_met)) // nodes)):
            here = slice(max(number * nodes - first, 0), (number + 1) * nodes - first)
            sources[number] += np.count_nonzero(is_met[here])
    return [edges.tolist(), sources.tolist(), targets.tolist()]


def _chunks(columns: RangeEdges) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for first in range(0, len(columns.src), CHUNK):
        here = slice(first, first + CHUNK)
        yield columns.src[here], columns.etype[here]
