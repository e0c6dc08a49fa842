"""Graphs by the fingerprint of their content: on disk, and those used last in memory."""

from __future__ import annotations

import logging
from pathlib import Path

import torch

from hetune.service.core.formats.documents import Document, parse
from hetune.service.core.formats.limits import ServiceLimits, check_limit
from hetune.service.core.formats.message import Pieces, read
from hetune.service.core.graphs.document import (
    GraphHeader,
    arrays_of,
    check_names,
    graph_of,
    header_of,
)
from hetune.service.core.graphs.graph_files import GraphFiles
from hetune.service.core.storage.cache import BytesCache
from hetune.variants.errors import GraphError, MalformedError, NotFoundError
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.runtime.workspace import WORKSPACES

_log = logging.getLogger(__name__)
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


class StoredGraph(Document):
    """A graph that is kept.

    Attributes:
        id: Its fingerprint.
        bytes: Of its file, and of the features that are kept with it.
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

    Attributes:
        files: Where they are.

    Raises:
        FolderError: The folder cannot be used.
    """

    def __init__(self, root: Path, limits: ServiceLimits) -> None:
        self.files = GraphFiles(root, limits.stored_bytes)
        self._limits = limits
        self._loaded: BytesCache[Path, HeteroGraph] = BytesCache(limits.loaded_bytes, held_bytes)
        self.files.on_change.append(self._loaded.discard)

    def add(self, graph: HeteroGraph) -> str:
        """Keeps a graph, and gives its id. One that is there already is kept as it is.

        Raises:
            InputError: A name of its types holds a control character.
            TooLargeError: With the graphs that are pinned it is over the limit on disk.
            FolderError: It cannot be written.
        """
        key, path = graph.fingerprint, self.files.path(graph.fingerprint)
        with self.files.folder.locked():  # or it may go for others once it is seen to be there
            if not path.exists():
                check_limit("bytes on disk", _array_bytes(graph), self._limits.stored_bytes)
                header = header_of(graph)
                check_names(header)
                content = Pieces(header.model_dump_json(), arrays_of(graph))
                self.files.publish(content, key)
            self.files.touch(path)
        self._loaded.add(path, graph)
        return key

    def get(self, key: str) -> HeteroGraph:
        """The graph of an id.

        Raises:
            NotFoundError: There is none.
            FolderError: It cannot be read.
        """
        path = self.files.path(key)
        is_there, graph = self.files.touch(path), self._loaded.get(path)
        if graph is not None and is_there:
            return graph
        return self._loaded.add(path, self._read(key, path))

    def all(self) -> tuple[StoredGraph, ...]:
        """All graphs, the one used last first."""
        files = self.files.all()
        bytes_of = {file.graph: 0 for file in files}
        for file in files:
            bytes_of[file.graph] += file.bytes
        return tuple(
            StoredGraph(
                id=file.graph,
                bytes=bytes_of[file.graph],
                pinned=self.files.is_pinned(file.graph),
            )
            for file in reversed(files)
            if file.features is None
        )

    def pin(self, key: str, *, pinned: bool = True) -> None:
        """Keeps a graph whatever the limit on disk, until it is unpinned (or deleted).

        Raises:
            NotFoundError: There is none of that id.
            FolderError: The folder cannot be written.
        """
        self.files.pin(key, pinned=pinned)

    def remove(self, key: str) -> None:
        """Deletes a graph, and the features that are kept with it.

        Raises:
            NotFoundError: There is none of that id.
        """
        self.files.remove(key)

    def _read(self, key: str, path: Path) -> HeteroGraph:
        try:
            with self.files.folder.io("read"):
                message = read(path, is_own=True)
            graph = graph_of(parse(GraphHeader, message.document), message.tensors, self._limits)
            if graph.fingerprint == key:
                return graph
            reason = "its content has another fingerprint"
        except FileNotFoundError:
            raise NotFoundError(f"there is no graph {key}: give it to the service first") from None
        except (MalformedError, GraphError) as error:
            reason = str(error)
        _log.error("the graph %s is damaged and put aside: %s", path, reason)
        self.files.put_aside(path)
        raise NotFoundError(f"the graph {key} was damaged on disk: give it to the service again")


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


def _array_bytes(graph: HeteroGraph) -> int:
    return 4 * (3 * graph.num_edges + graph.num_nodes)


def indexed_bytes(graph: HeteroGraph) -> int:
    """What a graph takes with its indexes, by estimate."""
    return _INDEXED * _array_bytes(graph)


def held_bytes(graph: HeteroGraph) -> int:
    """What a graph takes in memory with its indexes, workspace and a result, by estimate."""
    # Asked for without a lock: who indexes the graph meanwhile holds it for long.
    space = graph.state.known(WORKSPACES, None)
    held = 0 if space is None else space.nbytes + space.results.nbytes
    return indexed_bytes(graph) + held
