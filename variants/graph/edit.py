"""Graphs with some edges more and others less, and the indexes that they share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Literal, TypeAlias

import numpy as np
import torch

from hetune.variants.errors import GraphError
from hetune.variants.graph import index_native
from hetune.variants.graph._arrays import check_count
from hetune.variants.graph._entries import Edges, Entries, Types
from hetune.variants.graph._merge import Added, find_edges, merged_order
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.index import GraphIndex
from hetune.variants.graph.row_groups import as_int32

__all__ = ["Edges", "Parallel", "edited"]

Parallel: TypeAlias = Literal["all", "each"]
"""Whether an edge that is to go takes all parallel ones along, or as many as it has entries."""
_MERGE_COST = 16
"""From which share of edges that change on they are sorted anew, as its inverse.

Set by hand after noisy runs, none of which is kept: about right at best.
It decides only what an edit costs; its result is the same either way.
"""


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

    If the graph is indexed and few of its edges change, so is the result: the canonical order of
    its edges and their source pairs, which would have to be sorted, are merged from the graph's.
    All else is derived anew when it is asked for. A graph that is not indexed is, if anything is
    to go. Runs on the result let go of none of its indexes, which the next edit takes up.

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
    index = GraphIndex.of(graph)
    removed = _positions(index, types.offsets, go, parallel)
    gone = as_int32(np.sort(index.edge_id.numpy()[removed]) if len(removed) else removed)
    added = _added(types, come)
    numbers, ntype = None, graph.ntype.cpu()
    if add_nodes:
        sizes = torch.from_numpy(np.diff(types.new_offsets))
        ntype = torch.repeat_interleave(torch.arange(graph.num_ntypes, device="cpu"), sizes)
        shift = np.repeat((types.new_offsets - types.offsets)[:-1], np.diff(types.offsets))
        numbers = as_int32(np.arange(graph.num_nodes) + shift)
    src, dst, etype = _columns(graph, gone, added, numbers)
    result = HeteroGraph(
        src,
        dst,
        etype,
        ntype,
        num_nodes=ntype.numel(),
        num_etypes=graph.num_etypes,
        num_ntypes=graph.num_ntypes,
        ntype_names=graph.ntype_names,
        etype_names=graph.etype_names,
        canonical_etypes=graph.canonical_etypes,
        node_names={
            name: names
            for name, names in (graph.node_names or {}).items()
            if not add_nodes.get(name)
        },
        validate=False,
    )
    changes = len(removed) + len(added.etype)
    GraphIndex.of(result).retention.keep_all()  # more edits may follow
    if "order" in index.build_seconds and changes * _MERGE_COST <= graph.num_edges:
        GraphIndex.of(result).step(
            "order", lambda: merged_order(index, removed, gone, added, numbers)
        )
    return result


def _positions(
    index: GraphIndex, offsets: np.ndarray, go: Sequence[Entries], parallel: Parallel
) -> np.ndarray:
    """Where in canonical order the edges lie that go, ascending."""
    found = [np.empty(0, np.int64)]
    for part in go:
        pairs, entry, wanted = np.unique(
            part.src << 32 | part.dst, return_index=True, return_counts=True
        )
        src, dst = part.src[entry] + offsets[part.source], part.dst[entry] + offsets[part.target]
        first, after = find_edges(index, src, dst, np.full(len(pairs), part.etype))
        counts = after - first
        taken = wanted if parallel == "each" else np.maximum(counts, 1)
        lacking = np.flatnonzero(taken > counts)
        if len(lacking):
            worst = lacking[entry[lacking].argmin()]
            raise GraphError(_missing(part, entry[worst], counts[worst], wanted[worst]))
        starts = np.repeat(after - np.cumsum(taken), taken)
        found.append(starts + np.arange(len(starts)))
    return np.sort(np.concatenate(found))


def _missing(part: Entries, entry: int, there: int, wanted: int) -> str:
    edge = f"{part.name} names the edge from {part.src[entry]} to {part.dst[entry]}"
    if there:
        return f"{edge} {wanted} times, but there are {there}: name it as often, or parallel='all'"
    return f"{edge}, but the graph has none of that type: name edges that it has"


def _added(types: Types, come: Sequence[Entries]) -> Added:
    def joined(parts: Sequence[np.ndarray]) -> np.ndarray:
        return np.concatenate([np.empty(0, np.int64), *parts])

    def keys(ids: np.ndarray, ntype: int) -> np.ndarray:
        first, end = types.offsets[ntype], types.offsets[ntype + 1]
        found: np.ndarray = np.minimum(2 * (ids + first), 2 * end - 1)
        return found

    return Added(
        joined([part.src + types.new_offsets[part.source] for part in come]),
        joined([part.dst + types.new_offsets[part.target] for part in come]),
        joined([np.full(len(part.src), part.etype) for part in come]),
        joined([keys(part.src, part.source) for part in come]),
        joined([keys(part.dst, part.target) for part in come]),
    )


def _columns(
    graph: HeteroGraph, gone: torch.Tensor, added: Added, numbers: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Sources, destinations and types of the edges that stay, and of those that come."""
    at = torch.full((len(added.src),), graph.num_edges, dtype=torch.int32, device="cpu")

    def column(
        values: torch.Tensor, come: np.ndarray, looked_up: torch.Tensor | None = None
    ) -> torch.Tensor:
        return index_native.edit_column(values.cpu(), gone, at, as_int32(come), looked_up)

    return (
        column(graph.src, added.src, numbers),
        column(graph.dst, added.dst, numbers),
        column(graph.etype, added.etype),
    )
