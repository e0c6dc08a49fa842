"""Graphs with some edges more and others less."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Literal, TypeAlias

import numpy as np
import torch

from hetune.variants.errors import GraphError
from hetune.variants.graph._arrays import check_count
from hetune.variants.graph.edit_entries import Edges, Entries, Types
from hetune.variants.graph.hetero import HeteroGraph

__all__ = ["Edges", "Parallel", "edited"]

Parallel: TypeAlias = Literal["all", "each"]
"""Whether an edge that is to go takes all parallel ones along, or as many as it has entries."""


def edited(
    graph: HeteroGraph,
    *,
    add: Edges = MappingProxyType({}),
    remove: Edges = MappingProxyType({}),
    add_nodes: Mapping[str, int] = MappingProxyType({}),
    parallel: Parallel = "all",
) -> HeteroGraph:
    """A graph with some edges and nodes more, and other edges less.

    Edges that stay keep their order; those that come follow, in the order of their edge types, of
    one type as they were given. Nodes that come are the last of their type: ids from 0 in each
    type stay what they are, while in the graph's own order those of later types move up. What goes
    is looked for in the graph as it is, before anything comes.

    Edge data are left out, for new edges have none. The result is indexed when it is first run on.

    Args:
        graph: The graph; it stays as it is.
        add: Edges that come, by edge type: its name, or its (source type, relation, destination
            type), also joined by "|". Ids of new nodes follow those of the others of their type.
        remove: Edges that go, likewise.
        add_nodes: How many nodes come, by node type, which keeps no names of its nodes then.
        parallel: "all": what is to go goes with all edges of that type between the same nodes.
            "each": of these, as many go as there are entries for them, the last ones first.

    Returns:
        The edited graph, on the CPU.

    Raises:
        GraphError: There is no such type or node, or no such edge: the first entry is named; or
            an edge type of the graph joins several pairs of node types.
    """
    if parallel not in ("all", "each"):
        raise GraphError(f"parallel is {parallel!r}: give 'all' or 'each'")
    types = Types(graph, add_nodes)
    come, go = types.entries("add", add), types.entries("remove", remove)
    check_count("num_edges", graph.num_edges + sum(len(part.src) for part in come))
    columns = [ids.cpu().numpy() for ids in (graph.src, graph.dst, graph.etype)]
    stays = np.ones(graph.num_edges, bool)
    for part in go:
        stays[_positions(part, types.offsets, columns, parallel)] = False
    src, dst, etype = (column[stays] for column in columns)
    if add_nodes:
        shift = (types.new_offsets - types.offsets)[:-1].astype(np.int32)
        ntype = graph.ntype.cpu().numpy()
        src, dst = src + shift[ntype[src]], dst + shift[ntype[dst]]
    return graph.with_columns(
        _joined(src, [part.src + types.new_offsets[part.source] for part in come]),
        _joined(dst, [part.dst + types.new_offsets[part.target] for part in come]),
        _joined(etype, [np.full(len(part.src), part.etype) for part in come]),
        _joined(np.empty(0), [np.repeat(np.arange(graph.num_ntypes), np.diff(types.new_offsets))]),
        canonical_etypes=graph.canonical_etypes,
        node_names={
            name: names
            for name, names in (graph.node_names or {}).items()
            if not add_nodes.get(name)
        },
    )


def _joined(stay: np.ndarray, come: Sequence[np.ndarray]) -> torch.Tensor:
    return torch.from_numpy(np.concatenate([stay, *come], dtype=np.int32, casting="unsafe"))


def _positions(
    part: Entries, offsets: np.ndarray, columns: Sequence[np.ndarray], parallel: Parallel
) -> np.ndarray:
    """Which of the graph's edges go for the entries of an edge type."""
    pairs, entry, wanted = np.unique(
        part.src << 32 | part.dst, return_index=True, return_counts=True
    )
    src, dst, etype = columns
    of_type = np.flatnonzero(etype == part.etype)[::-1]  # the last ones first
    sources = src[of_type].astype(np.int64) - offsets[part.source]
    keys = sources << 32 | dst[of_type] - offsets[part.target]
    order = np.argsort(keys, kind="stable")
    first, after = (np.searchsorted(keys, pairs, side, sorter=order) for side in ("left", "right"))
    counts = after - first
    taken = wanted if parallel == "each" else np.maximum(counts, 1)
    lacking = np.flatnonzero(taken > counts)
    if len(lacking):
        worst = lacking[entry[lacking].argmin()]
        raise GraphError(_missing(part, entry[worst], counts[worst], wanted[worst]))
    ranks = np.arange(taken.sum()) + np.repeat(first - np.cumsum(taken) + taken, taken)
    found: np.ndarray = of_type[order[ranks]]
    return found


def _missing(part: Entries, entry: int, there: int, wanted: int) -> str:
    edge = f"{part.name} names the edge from {part.src[entry]} to {part.dst[entry]}"
    if there:
        return f"{edge} {wanted} times, but there are {there}: name it as often, or parallel='all'"
    return f"{edge}, but the graph has none of that type: name edges that it has"
