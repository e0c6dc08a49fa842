"""What an edit names: edges by edge type with ids from 0 in each node type, and new nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple, TypeAlias

import numpy as np
import torch

from hetune.variants.errors import GraphError
from hetune.variants.graph._arrays import IdArray, as_ids, check_count, check_range
from hetune.variants.graph.hetero import CanonicalEtype, HeteroGraph

Edges: TypeAlias = (
    Mapping[str, IdArray]
    | Mapping[CanonicalEtype, IdArray]
    | Mapping[str | CanonicalEtype, IdArray]
)
"""By edge type, ids [2, n] of sources and destinations, from 0 in each node type."""


class Entries(NamedTuple):
    """Edges of one edge type, ids from 0 in each node type: int64 [n].

    Attributes:
        name: Of the argument, for messages.
        etype: The edge type.
        source: Its source node type.
        target: Its destination node type.
        src: Sources.
        dst: Destinations.
    """

    name: str
    etype: int
    source: int
    target: int
    src: np.ndarray
    dst: np.ndarray


class Types:
    """The types of a graph, and how many nodes each has before and after.

    Args:
        graph: The graph before.
        add_nodes: How many nodes come, by node type.

    Raises:
        GraphError: A node type is none, or there are too many nodes.

    Attributes:
        offsets: First node of each node type, and N: int64 [T + 1].
        new_offsets: The same with the nodes that come.
    """

    def __init__(self, graph: HeteroGraph, add_nodes: Mapping[str, int]) -> None:
        self._graph = graph
        self._ntypes = {name: t for t, name in enumerate(graph.ntype_names)}
        counts = np.diff(graph.node_offsets).tolist()
        new = list(counts)
        for name, count in add_nodes.items():
            if name not in self._ntypes:
                raise GraphError(
                    f"add_nodes has {name!r}, which is no node type of the graph: give one of "
                    f"{list(graph.ntype_names)}"
                )
            check_count(f"add_nodes[{name!r}]", count)
            new[self._ntypes[name]] += count
        check_count("num_nodes", sum(new))
        self._counts, self._new_counts = counts, new
        self.offsets = np.array([0, *accumulate(counts)], np.int64)
        self.new_offsets = np.array([0, *accumulate(new)], np.int64)

    def entries(self, argument: str, given: Edges) -> tuple[Entries, ...]:
        """The edges of an argument, in the order of edge types.

        Args:
            argument: "add", whose ids may be those of nodes that come, or "remove".
            given: The edges.

        Raises:
            GraphError: An edge type is none, or is there twice, or ids are none of its nodes.
        """
        is_new = argument == "add"
        counts = self._new_counts if is_new else self._counts
        found: dict[int, Entries] = {}
        for key, edges in given.items():
            name, etype = f"{argument}[{key!r}]", self._etype(argument, key)
            if etype in found:
                raise GraphError(
                    f"{found[etype].name} and {name} are the same edge type: join them"
                )
            source, _, target = self._graph.canonical_etypes[etype]
            ends = []
            for row, ntype, part in zip((0, 1), (source, target), _rows(name, edges), strict=True):
                t = self._ntypes.get(ntype)
                before, count = (0, 0) if t is None else (self._counts[t], counts[t])
                grow = "" if t is None or not is_new else f"add_nodes[{ntype!r}]"
                check_range(f"{name}[{row}]", part, count, f"{ntype} nodes", grow, before)
                ends.append(part.cpu().numpy().astype(np.int64))
            first, last = (self._ntypes.get(ntype, 0) for ntype in (source, target))
            found[etype] = Entries(name, etype, first, last, *ends)
        return tuple(found[etype] for etype in sorted(found))

    def _etype(self, argument: str, key: object) -> int:
        graph = self._graph
        if isinstance(key, str) and key in graph.etype_names:
            return graph.etype_names.index(key)
        for etype, triple in enumerate(graph.canonical_etypes):
            if key in (triple, "|".join(triple)):
                return etype
        raise GraphError(
            f"{argument} has {key!r}, which is no edge type of the graph: give one of "
            f"{list(graph.etype_names)}, or (source type, relation, destination type)"
        )


def _rows(name: str, edges: object) -> Sequence[torch.Tensor]:
    shape = list(getattr(edges, "shape", ()))
    if len(shape) != 2 or shape[0] != 2:
        raise GraphError(
            f"{name} has the shape {shape}: give ids [2, n], the sources and the destinations"
        )
    return tuple(as_ids(f"{name}[{row}]", edges[row]) for row in (0, 1))  # type: ignore[index]
