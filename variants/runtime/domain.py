"""A plan's symbols on one graph: groups of edge types, indexes, and counts of rows."""

from __future__ import annotations

import math
import weakref
from collections.abc import Mapping
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hetune.variants.errors import GraphError
from hetune.variants.graph.device_index import DeviceBatchIndex, DeviceIndex
from hetune.variants.graph.edge_batch import BatchIndex, EdgeBatch
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.index import GraphIndex, RelationStats
from hetune.variants.graph.state import GraphSlot
from hetune.variants.kernel.nodes import Launch, Rows
from hetune.variants.kernel.walk import domains
from hetune.variants.plan.choices import Side
from hetune.variants.plan.sides import side_of
from hetune.variants.program.nodes import ALL_EDGES, Rule, Space, Type


class RelationSides(NamedTuple):
    """On which side plans that decide it by relation take each of a graph's edge types.

    Attributes:
        groups: The edge types that each rule of a group holds, by what kernels call it.
        side: That of all edge types, if it is one alone.
    """

    groups: dict[str, tuple[int, ...]]
    side: Side

    @classmethod
    def of(cls, stats: RelationStats) -> RelationSides:
        """Those of a graph with such relations."""
        at_source, at_target = (
            stats.src_pairs < stats.dst_pairs,
            stats.dst_pairs < stats.src_pairs,
        )
        held = {
            Rule.FEWER_SRC: at_source,
            Rule.FEWER_DST: ~at_source,
            Rule.REVERSED_SRC: at_target,
            Rule.REVERSED_DST: ~at_target,
        }
        groups = {rule.value: tuple(types.nonzero()[0].tolist()) for rule, types in held.items()}
        share = int(stats.edges[at_source].sum()) / max(int(stats.edges.sum()), 1)
        return cls(groups, side_of(share))

    def keep_with(self, graph: HeteroGraph) -> None:
        """Makes them those of another graph, which no plan has run on yet: a part of the first."""
        graph.state.of(_SIDES, None, lambda: self)


class RelationSums(NamedTuple):
    """Counts of some edge types."""

    edges: int
    src_pairs: int
    dst_pairs: int


_SIDES = GraphSlot[None, RelationSides]()


def split_relations(graph: HeteroGraph, device: torch.device | None = None) -> RelationSides:
    """The sides of a graph's edge types."""
    return graph.state.of(
        _SIDES, None, lambda: RelationSides.of(_index(graph, device).relation_stats)
    )


def _index(
    graph: HeteroGraph, device: torch.device | None, relations: tuple[int, ...] | None = None
) -> GraphIndex:
    if device is None:
        return GraphIndex.of(graph, relations)
    return DeviceIndex.on(graph, device, relations)


class Domain:
    """What a plan needs to know of a graph.

    Args:
        graph: The graph.
        device: Where its indexes are built, with torch's operators, as `DeviceIndex`; on the CPU,
            natively, if None.
        any_order: Whether a plan reads edges and pairs one by one: those of an `EdgeBatch` stay in
            their own order then.
    """

    def __init__(
        self, graph: HeteroGraph, device: torch.device | None = None, *, any_order: bool = False
    ) -> None:
        self._graph = weakref.ref(graph)
        self._counts: dict[tuple[Space, str], int] = {}
        self._all_counts: tuple[tuple[Rows, ...], NDArray[np.float64]] | None = None
        self._by_group: dict[str, RelationSums] = {}
        self._indexes: dict[str, GraphIndex] = {}
        self._is_in_order: bool | None = None
        if any_order and isinstance(graph, EdgeBatch):
            batch = (
                BatchIndex.of_batch(graph)
                if device is None
                else DeviceBatchIndex.on_device(graph, device)
            )
            self._indexes[ALL_EDGES], self._is_in_order = batch, True
        self.device = device

    @property
    def graph(self) -> HeteroGraph:
        """The graph, which the domain does not keep alive: what is cached on it refers to it.

        Raises:
            GraphError: It has been freed.
        """
        graph = self._graph()
        if graph is None:
            raise GraphError("the graph has been freed: keep a reference to it")
        return graph

    @property
    def place(self) -> torch.device:
        """Where tensors of its graph's rows are."""
        return self.device or torch.device("cpu")

    @cached_property
    def groups(self) -> Mapping[str, tuple[int, ...]]:
        """The edge types of each named group."""
        return split_relations(self.graph, self.device).groups

    @cached_property
    def relations(self) -> Mapping[str, NDArray[np.intp]]:
        """As `groups`, to pick from arrays with."""
        return {name: np.array(found, np.intp) for name, found in self.groups.items()}

    def index(self, group: str) -> GraphIndex:
        """The index of a group's edges."""
        found = self._indexes.get(group)
        if found is None:
            relations = None if group == ALL_EDGES else self.groups[group]
            found = self._indexes[group] = _index(self.graph, self.device, relations)
        return found

    @property
    def edge_order(self) -> Tensor | None:
        """Where the graph has each edge of the index, int32 [E]; None where the orders are one."""
        if self._is_in_order:
            return None
        index = self.index(ALL_EDGES)
        order = index.edge_id
        if self._is_in_order is None:
            small = index.small()
            self._is_in_order = ascends(order) if small is None else small.is_in_order
        return None if self._is_in_order else order

    @property
    def edge_places(self) -> Tensor | None:
        """Where the index has each edge of the graph, int32 [E]; None where the orders are one."""
        order = self.edge_order
        if order is None:
            return None

        def build() -> Tensor:
            places = torch.arange(len(order), dtype=order.dtype, device=order.device)
            return torch.empty_like(order).index_copy_(0, order.long(), places)

        return self.index(ALL_EDGES).step("places", build)

    def rows(self, space: Space, group: str = ALL_EDGES) -> int:
        """How many rows a space has."""
        if (space, group) not in self._counts:
            self._counts[space, group] = self._counted(space, group)
        return self._counts[space, group]

    def _counted(self, space: Space, group: str) -> int:
        match space:
            case Space.NODE:
                return self.graph.num_targets
            case Space.SOURCE:
                return self.graph.num_sources
            case Space.NTYPE:
                return self.graph.num_ntypes
            case Space.ETYPE:
                return self.graph.num_etypes if group == ALL_EDGES else len(self.groups[group])
            case Space.SHARED:
                return 1
            case Space.EDGE:
                return self.graph.num_edges if group == ALL_EDGES else self._sums(group).edges
            case Space.SRC_PAIR if group == ALL_EDGES:
                return self.index(group).num_src_pairs
            case Space.DST_PAIR if group == ALL_EDGES:
                return self.index(group).num_dst_pairs
            case Space.SRC_PAIR:
                return self._sums(group).src_pairs
            case Space.DST_PAIR:
                return self._sums(group).dst_pairs

    def count(self, rows: Rows) -> int:
        """Rows of a loop's domain."""
        return self.rows(rows.space, rows.group)

    @property
    def takes_other_edges(self) -> bool:
        """Whether other edges may take the place of these: what types they have is left open."""
        return self.device is None and isinstance(self._indexes.get(ALL_EDGES), BatchIndex)

    def rows_by_type(self, rows: Rows, types: Space) -> NDArray[np.int64]:
        """Rows of a loop's domain of each type of a weight space, or of those of its group."""
        match types:
            case Space.SHARED:
                return np.array([self.count(rows)])
            case Space.NTYPE:
                offsets = np.minimum(self.graph.node_offsets, self.graph.num_targets)
                return np.diff(offsets).astype(np.int64)
        index = self.index(ALL_EDGES)
        match rows.space:
            case Space.SRC_PAIR:
                counts = index.relation_stats.src_pairs
            case Space.DST_PAIR:
                counts = index.relation_stats.dst_pairs
            case _:
                counts = index.edges_per_relation
        return counts[self.relations[rows.group]] if rows.group else counts

    def counts(self, rows: tuple[Rows, ...]) -> NDArray[np.float64]:
        """Rows of many loops' domains, and infinity after the last, float64 [rows + 1].

        The same tuple is counted once.
        """
        known = self._all_counts
        if known is None or known[0] is not rows:
            counted = np.array([*map(self.count, rows), math.inf])
            known = self._all_counts = rows, counted
        return known[1]

    @property
    def side(self) -> Side:
        """Where hybrid plans transform all of the graph's edge types, if on one side alone."""
        return split_relations(self.graph, self.device).side

    def runs(self, launch: Launch) -> bool:
        """Whether a launch has anything to do: a group of relations may have no edges."""
        return any(self.count(rows) for rows in domains(launch))

    def buffer_rows(self, kind: Type) -> int:
        """Rows of a buffer: edge buffers always have one for every edge of the graph."""
        return self.rows(kind.space, ALL_EDGES if kind.space is Space.EDGE else kind.group)

    def _sums(self, group: str) -> RelationSums:
        """Edges and pairs of a named group's edge types."""
        if group not in self._by_group:
            stats, picked = self.index(ALL_EDGES).relation_stats, self.relations[group]
            counts = stats.edges, stats.src_pairs, stats.dst_pairs
            self._by_group[group] = RelationSums(*(int(each[picked].sum()) for each in counts))
        return self._by_group[group]


def ascends(order: Tensor) -> bool:
    """Whether this is 0, 1, 2 and so on."""
    return torch.equal(order, torch.arange(len(order), dtype=order.dtype, device=order.device))
