"""Graphs by the fingerprint of their content: on disk, and those used last in memory."""

from __future__ import annotations

import logging
import os
import re
import time
from dataclasses import dataclass
from pathlib import Path

import torch

from hetune.service.core.cache import BytesCache
from hetune.service.core.documents import Document, parse
from hetune.service.core.folder import Folder
from hetune.service.core.graph_document import GraphHeader, arrays_of, graph_of, header_of
from hetune.service.core.limits import Limits, check_limit
from hetune.service.core.message import pack, read
from hetune.variants.errors import GraphError, MalformedError, NotFoundError, TooLargeError
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.runtime.workspace import Workspace

_log = logging.getLogger(__name__)
ID_PATTERN = r"[0-9a-f]{32}"
_INDEXED = 6
"""How many times its arrays a graph takes with the indexes that runs build; an estimate."""


class NodeType(Document):
    """A type of nodes, and how many there are."""

    name: str
    nodes: int


class EdgeType(Document):
    """A type of edges, and how many there are."""

    name: str
    edges: int


class GraphStatistics(Document):
    """What is known of a graph. Degrees count incoming edges."""

    id: str
    num_nodes: int
    num_edges: int
    ntypes: tuple[NodeType, ...]
    etypes: tuple[EdgeType, ...]
    mean_degree: float
    largest_degree: int
    nodes_without_edges: int


@dataclass(frozen=True, slots=True)
class StoredGraph:
    """A graph on disk.

    Attributes:
        id: Its fingerprint.
        bytes: Of its file.
        pinned: Whether it stays whatever the limit on disk.
    """

    id: str
    bytes: int
    pinned: bool


class GraphStore:
    """Graphs that were given to the service.

    Graphs over the limit on disk go, the one used longest ago first, but for those that are pinned.
    A damaged file is put aside; its graph has to be given again.

    Args:
        root: Folder of the graphs.
        limits: What is accepted and held.

    Raises:
        FolderError: The folder cannot be used.
    """

    def __init__(self, root: Path, limits: Limits) -> None:
        self.folder = Folder(root)
        self._limits = limits
        self._loaded: BytesCache[str, HeteroGraph] = BytesCache(limits.loaded_bytes, held_bytes)

    def add(self, graph: HeteroGraph) -> str:
        """Keeps a graph, and gives its id. One that is there already is kept as it is.

        Raises:
            TooLargeError: With the graphs that are pinned it is over the limit on disk.
            FolderError: It cannot be written.
        """
        key, path = graph.fingerprint, self._path(graph.fingerprint)
        if not path.exists():
            check_limit("bytes on disk", _array_bytes(graph), self._limits.stored_bytes)
            content = pack(header_of(graph).model_dump_json(), arrays_of(graph))
            with self.folder.locked():
                self._check_pinned(len(content))
                self.folder.publish(content, path)
                self._evict(keep=path)
        self._loaded.add(key, graph)
        self._touch(path)
        return key

    def get(self, key: str) -> HeteroGraph:
        """The graph of an id.

        Raises:
            NotFoundError: There is none.
            FolderError: It cannot be read.
        """
        path = self._path(key)
        self._touch(path)
        graph = self._loaded.get(key)
        if graph is not None and path.exists():
            return graph
        return self._loaded.add(key, self._read(key, path))

    def all(self) -> tuple[StoredGraph, ...]:
        """All graphs, the one used last first."""
        return tuple(
            StoredGraph(path.stem, size, _pin_of(path).exists())
            for _, size, path in reversed(self._files())
        )

    def pin(self, key: str) -> None:
        """Keeps a graph whatever the limit on disk, until it is unpinned or deleted.

        Raises:
            NotFoundError: There is none of that id.
            FolderError: The folder cannot be written.
        """
        path = self._path(key)
        with self.folder.locked(), self.folder.io("write"):
            if not path.exists():
                raise _unknown(key)
            _pin_of(path).touch(mode=0o600)

    def unpin(self, key: str) -> None:
        """Lets a graph go when graphs are over their limit, as it was before it was pinned.

        Raises:
            NotFoundError: There is none of that id.
            FolderError: The folder cannot be written.
        """
        path = self._path(key)
        with self.folder.locked(), self.folder.io("write"):
            if not path.exists():
                raise _unknown(key)
            _pin_of(path).unlink(missing_ok=True)

    def remove(self, key: str) -> None:
        """Deletes a graph.

        Raises:
            NotFoundError: There is none of that id.
        """
        path = self._path(key)
        self._loaded.discard(key)
        with self.folder.locked(), self.folder.io("write"):
            try:
                path.unlink()
            except FileNotFoundError:
                raise _unknown(key) from None
            _pin_of(path).unlink(missing_ok=True)

    def _path(self, key: str) -> Path:
        if not re.fullmatch(ID_PATTERN, key):
            raise NotFoundError(
                f"{key[:64]!r} is no id of a graph: ids have 32 digits, 0-9 and a-f"
            )
        return self.folder.root / f"{key}.safetensors"

    def _read(self, key: str, path: Path) -> HeteroGraph:
        try:
            with self.folder.io("read"):
                message = read(path)
            graph = graph_of(parse(GraphHeader, message.document), message.tensors, self._limits)
            if graph.fingerprint == key:
                return graph
            reason = "its content has another fingerprint"
        except FileNotFoundError:
            raise _unknown(key) from None
        except (MalformedError, GraphError) as error:
            reason = str(error)
        _log.error("the graph %s is damaged and put aside: %s", path, reason)
        with self.folder.io("write"):
            path.replace(path.with_suffix(".damaged"))
        raise NotFoundError(f"the graph {key} was damaged on disk: give it to the service again")

    def _touch(self, path: Path) -> None:
        """Its modification time is when a graph was last used."""
        try:
            now = time.time_ns()  # the system's own clock for files is coarser
            os.utime(path, ns=(now, now))
        except OSError:
            _log.debug("cannot note the use of %s", path)

    def _files(self) -> list[tuple[int, int, Path]]:
        """Time of last use, size and path of each graph, sorted."""
        found = []
        with self.folder.io("read"):
            for path in self.folder.root.glob("*.safetensors"):
                try:
                    status = path.stat()
                except FileNotFoundError:  # another process has just removed it
                    continue
                found.append((status.st_mtime_ns, status.st_size, path))
        return sorted(found)

    def _check_pinned(self, more: int) -> None:
        pinned = sum(graph.bytes for graph in self.all() if graph.pinned)
        if pinned + more > self._limits.stored_bytes:
            raise TooLargeError(
                f"graphs that are pinned take {pinned} bytes, and {more} more are over the "
                f"{self._limits.stored_bytes} that this service keeps: unpin one"
            )

    def _evict(self, keep: Path) -> None:
        files = self._files()
        total = sum(size for _, size, _ in files)
        for _, size, path in files:
            if total <= self._limits.stored_bytes:
                return
            if path != keep and not _pin_of(path).exists():
                _log.info("the graph %s goes, for graphs are over their limit", path.stem)
                path.unlink(missing_ok=True)
                self._loaded.discard(path.stem)
                total -= size


def statistics(graph: HeteroGraph) -> GraphStatistics:
    """Counts and degrees of a graph."""
    degrees = torch.bincount(graph.dst, minlength=graph.num_nodes)
    edges = torch.bincount(graph.etype, minlength=graph.num_etypes).tolist()
    nodes = torch.bincount(graph.ntype, minlength=graph.num_ntypes).tolist()
    touched = degrees + torch.bincount(graph.src, minlength=graph.num_nodes)
    return GraphStatistics(
        id=graph.fingerprint,
        num_nodes=graph.num_nodes,
        num_edges=graph.num_edges,
        ntypes=tuple(
            NodeType(name=name, nodes=count)
            for name, count in zip(graph.ntype_names, nodes, strict=True)
        ),
        etypes=tuple(
            EdgeType(name=name, edges=count)
            for name, count in zip(graph.etype_names, edges, strict=True)
        ),
        mean_degree=graph.num_edges / max(graph.num_nodes, 1),
        largest_degree=int(degrees.max()) if graph.num_nodes else 0,
        nodes_without_edges=int((touched == 0).sum()),
    )


def _pin_of(path: Path) -> Path:
    return path.with_suffix(".pinned")


def _unknown(key: str) -> NotFoundError:
    return NotFoundError(f"there is no graph {key}: give it to the service first")


def _array_bytes(graph: HeteroGraph) -> int:
    return 4 * (3 * graph.num_edges + graph.num_nodes)


def held_bytes(graph: HeteroGraph) -> int:
    """What a graph takes in memory with its indexes, by estimate."""
    return _INDEXED * _array_bytes(graph) + Workspace.of(graph).nbytes
