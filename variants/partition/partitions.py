"""A graph's edges by ranges of the nodes that they lead to."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from hetune.variants.graph.bipartite import BipartiteGraph
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.index import GraphIndex, RelationStats
from hetune.variants.graph.part import GraphPart, numbered, part_of
from hetune.variants.runtime.domain import RelationSides

RANGE = 1 << 13
"""Edges and nodes of a range: so few that runs can put as many together as memory allows."""


class RangeEdges(NamedTuple):
    """The edges into the nodes of some ranges, by range; ids are those of the whole graph.

    Attributes:
        src: Source of each edge, integers [edges].
        dst: Destination, [edges].
        etype: Type, [edges].
    """

    src: np.ndarray
    dst: np.ndarray
    etype: np.ndarray


class Partitions(ABC):
    """A graph's edges by ranges of the nodes that they lead to.

    The ranges are ascending and cover all nodes. A run takes some that follow each other at once.

    Attributes:
        types: A graph with the same types; its nodes and edges do not matter.
        node_offsets: First node of each type, and N: length T + 1.
        num_edges: E.
        bounds: First node of each range, and N, int64 [ranges + 1].
        starts: Edges before each range, and E, int64 [ranges + 1].
        stats: Edges and pairs per relation; None where pairs are too many to be counted.
        digest: Tells graphs apart, in hex.
    """

    types: HeteroGraph
    node_offsets: tuple[int, ...]
    num_edges: int
    bounds: NDArray[np.int64]
    starts: NDArray[np.int64]
    stats: RelationStats | None
    digest: str

    @property
    def num_nodes(self) -> int:
        """N."""
        return self.node_offsets[-1]

    @abstractmethod
    def edges(self, first: int, last: int) -> RangeEdges:
        """The edges into the nodes of the ranges from `first` to `last`, the latter not included.

        Raises:
            GraphFileError: They cannot be read.
        """

    def part(self, first: int, last: int, *, bipartite: bool = False) -> GraphPart:
        """The graph of these edges; plans take its edge types on the sides of the whole graph's.

        Args:
            first: The first range.
            last: The range after the last one.
            bipartite: Whether its edges go from `nodes` to `needed`, numbered on their own.

        Raises:
            GraphFileError: They cannot be read.
        """
        needed = np.arange(self.bounds[first], self.bounds[last])
        edges = self.edges(first, last)
        if bipartite:
            part = self._bipartite(needed, edges)
        else:
            part = part_of(self.types, self.node_offsets, needed, *edges)
        if self.sides is not None:
            self.sides.keep_with(part.graph)
        return part

    def _bipartite(self, needed: np.ndarray, edges: RangeEdges) -> GraphPart:
        nodes, number = numbered(needed, edges.src, self.num_nodes)
        low, high = (needed[0], needed[-1] + 1) if len(needed) else (0, 0)
        of_type = np.diff(np.clip(self.node_offsets, low, high))
        types = np.repeat(np.arange(len(of_type), dtype=np.int32), of_type)
        graph = BipartiteGraph(
            number(edges.src),
            edges.dst - int(low),
            edges.etype,
            num_sources=len(nodes),
            num_targets=len(needed),
            num_etypes=self.types.num_etypes,
            types=self.types if self.types.is_canonical else None,
            target_types=torch.from_numpy(types),
        )
        return GraphPart(graph, nodes, needed)

    @cached_property
    def sides(self) -> RelationSides | None:
        """On which side plans take each edge type; None where pairs are too many to be counted."""
        return None if self.stats is None else RelationSides.of(self.stats)


class GraphPartitions(Partitions):
    """Those of a graph in memory. Pickled, it is the graph.

    Args:
        graph: It gets indexed.
        size: About how many edges and nodes together a range has; one node's are never split.
    """

    def __init__(self, graph: HeteroGraph, size: int = RANGE) -> None:
        self._index, self._size = (index := GraphIndex.of(graph)), size
        indptr = index.indptr.numpy().astype(np.int64)
        self.types, self.node_offsets, self.num_edges = graph, graph.node_offsets, graph.num_edges
        self.bounds = bounds_of(indptr, 1, size)
        self.starts = indptr[self.bounds]
        self.stats, self.digest = index.relation_stats, graph.fingerprint

    def edges(self, first: int, last: int) -> RangeEdges:
        """By destination, type and source."""
        here = slice(self.starts[first], self.starts[last])
        index = self._index
        return RangeEdges(*(ids.numpy()[here] for ids in (index.src, index.dst, index.etype)))

    def __reduce__(self) -> Any:
        return GraphPartitions, (self.types, self._size)


def bounds_of(before: NDArray[np.int64], block: int, size: int) -> NDArray[np.int64]:
    """First block of each range, and the number of blocks, int64 [ranges + 1].

    Args:
        before: Edges into the nodes before each block, and all: int64 [blocks + 1].
        block: Nodes of a block, which is not split.
        size: About how many edges and nodes together a range has.
    """
    blocks = len(before) - 1
    load = before + block * np.arange(blocks + 1)
    cuts = np.searchsorted(load, np.arange(0, load[-1], size))
    return np.union1d(cuts, [0, blocks]).astype(np.int64)
