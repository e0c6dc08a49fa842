"""Parts of a graph: all edges into some of its nodes, and the nodes that they join."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from hetune.variants.graph.hetero import HeteroGraph

__all__ = ["GraphPart", "numbered", "part_of"]

_SEARCHING = 512
"""How many times as long it takes to find an edge's source as to have room for a node's number.

It decides only what numbering costs, and not its result.
"""


@dataclass(frozen=True, slots=True)
class GraphPart:
    """All edges into some nodes, and all nodes that they join.

    Attributes:
        graph: The edges, with the whole graph's types; its nodes are `nodes`, in this order.
        nodes: Ids in the whole graph, ascending, int64.
        needed: Ids of the nodes whose edges these are, ascending, int64; among `nodes`.
    """

    graph: HeteroGraph
    nodes: np.ndarray
    needed: np.ndarray

    @property
    def targets(self) -> slice:
        """Where `needed` stand in `nodes`, if they are a range of nodes."""
        start = int(np.searchsorted(self.nodes, self.needed[0])) if len(self.needed) else 0
        return slice(start, start + len(self.needed))


def part_of(
    whole: HeteroGraph,
    node_offsets: Sequence[int],
    needed: np.ndarray,
    src: np.ndarray,
    dst: np.ndarray,
    etype: np.ndarray,
) -> GraphPart:
    """The part of all edges into some nodes; edges keep their order.

    Args:
        whole: A graph with the types of the whole one; its nodes and edges do not matter.
        node_offsets: First node of each type of the whole graph, and N: length T + 1.
        needed: The nodes, ascending, int64.
        src: Source of each edge into them, ids in the whole graph [E].
        dst: Destination, [E].
        etype: Type, [E].
    """
    nodes, number = numbered(needed, src, node_offsets[-1])
    graph = whole.with_columns(
        number(src),
        number(dst),
        np.array(etype, np.int32),
        np.repeat(
            np.arange(whole.num_ntypes, dtype=np.int32),
            np.diff(np.searchsorted(nodes, node_offsets)),
        ),
        canonical_etypes=whole.canonical_etypes if whole.is_resolved else None,
    )
    return GraphPart(graph, nodes, needed)


def numbered(
    needed: np.ndarray, src: np.ndarray, num_nodes: int
) -> tuple[np.ndarray, Callable[[np.ndarray], np.ndarray]]:
    """All nodes that are named, ascending, and what numbers them."""
    named = np.sort(np.concatenate([needed.astype(np.int32), src.astype(np.int32, copy=False)]))
    is_first = np.ones(len(named), bool)
    np.not_equal(named[1:], named[:-1], out=is_first[1:])
    nodes = named[is_first]
    if len(src) * _SEARCHING < num_nodes:
        return nodes.astype(np.int64), lambda ids: np.searchsorted(nodes, ids).astype(np.int32)
    numbers = np.empty(num_nodes, np.int32)  # the system gives what is written to alone
    numbers[nodes] = np.arange(len(nodes), dtype=np.int32)
    return nodes.astype(np.int64), numbers.take
