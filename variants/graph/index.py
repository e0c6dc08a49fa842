"""The indexes that kernels walk: destination CSR, source CSC, pairs."""

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from hetune.variants.errors import GraphError, InputError
from hetune.variants.graph import index_native
from hetune.variants.graph._order import (
    DstPairs,
    EdgeOrder,
    RelationStats,
    SelectedPairs,
    select_pairs,
)
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.lazy_steps import SMALL_BYTES, IndexRetention, Steps
from hetune.variants.graph.row_groups import num_blocks
from hetune.variants.graph.small_index import SMALL, SmallIndex
from hetune.variants.graph.state import GraphSlot

__all__ = ["GraphIndex", "RelationStats"]


class GraphIndex(Steps):
    """Indexes of a set of a graph's edges: all of them, or those of some relations.

    Everything is built when it is first asked for, once, and kept, until it is released; all
    tensors are int32, on the CPU, and must not be written to. The *canonical order* of edges is by
    (dst, etype, src), equal ones as the graph has them. Safe to use from several threads. Keeps the
    graph's arrays alive, but not the graph, which owns its indexes. Let E be the number of edges of
    the index, N of nodes, R of relations, PS and PD of distinct (src, etype) and (dst, etype)
    pairs.

    Attributes:
        relations: The relations it is limited to, ascending; None for all edges.
        num_edges: E.
        num_nodes: N; of a `BipartiteGraph` that of the destinations.
        num_ids: More than any id of a node.
        num_etypes: R.
        device: Where the tensors are.
        retention: What is kept of all indexes of the graph.
    """

    device = torch.device("cpu")

    def __init__(self, graph: HeteroGraph, relations: tuple[int, ...] | None = None) -> None:
        """Prefer `GraphIndex.of`, which shares indexes."""
        super().__init__()
        self.relations = relations
        self.num_nodes, self.num_etypes = graph.num_targets, graph.num_etypes
        self.num_ids = graph.num_nodes
        self._graph = weakref.ref(graph)
        src, dst, etype = (ids.to(self.device) for ids in (graph.src, graph.dst, graph.etype))
        self._edges, self._ntype = (src, dst, etype), graph.ntype.to(self.device)
        self._whole = None if relations is None else self._whole_of(graph)
        self.retention: IndexRetention = (
            IndexRetention() if self._whole is None else self._whole.retention
        )
        self.retention.join(self)
        self.num_edges = graph.num_edges
        self._is_large = max(self.num_edges, self.num_ids, self.num_etypes) >= SMALL
        if relations is not None:
            self.num_edges = int(self.whole.edges_per_relation[list(relations)].sum())

    @classmethod
    def of(cls, graph: HeteroGraph, relations: tuple[int, ...] | None = None) -> "GraphIndex":
        """The index of the graph's edges of these relations, cached on the graph.

        Args:
            graph: The graph.
            relations: Relations in any order; None for all, () for an index without edges.

        Raises:
            GraphError: There is no such relation.
        """
        if relations is not None:
            relations = tuple(sorted(set(relations)))
            if relations and not 0 <= relations[0] <= relations[-1] < graph.num_etypes:
                wrong = relations[0] if relations[0] < 0 else relations[-1]
                raise GraphError(
                    f"cannot index relation {wrong}: the graph has relations 0 to "
                    f"{graph.num_etypes - 1}"
                )
        return graph.state.of(_INDEXES, relations, lambda: cls(graph, relations))

    @property
    def whole(self) -> "GraphIndex":
        """The index of all edges; itself where it is that."""
        return self if self._whole is None else self._whole

    @property
    def graph(self) -> HeteroGraph:
        """The graph.

        Raises:
            GraphError: It has been freed, for nothing else referred to it.
        """
        graph = self._graph()
        if graph is None:
            raise GraphError("the graph of this index has been freed: keep a reference to it")
        return graph

    # Edges in canonical order.

    @property
    def edge_id(self) -> torch.Tensor:
        """Position of each edge in the graph's own order, [E]."""
        return self._column("edge_id")

    @property
    def position(self) -> torch.Tensor:
        """Position of each edge in the canonical order of all the graph's edges, [E]."""
        relations = self.relations
        if relations is None:
            count, device = self.num_edges, self.device
            return self.step(
                "position", lambda: torch.arange(count, dtype=torch.int32, device=device)
            )
        every = self.whole._order
        return self.step("position", lambda: self._selected(every, relations))

    @property
    def src(self) -> torch.Tensor:
        """Source of each edge, [E]."""
        return self._column("src")

    @property
    def dst(self) -> torch.Tensor:
        """Destination of each edge, [E], non-decreasing."""
        return self._column("dst")

    @property
    def etype(self) -> torch.Tensor:
        """Type of each edge, [E]."""
        return self._column("etype")

    @property
    def indptr(self) -> torch.Tensor:
        """First incoming edge of each node, and E: destination CSR, [N + 1]."""
        return self._pointers("indptr", self._passing("dst"), self.num_nodes)

    @property
    def in_degree(self) -> torch.Tensor:
        """Incoming edges of each node, [N]."""
        return self.step("in_degree", lambda: torch.diff(self.indptr))

    def nodes_with_edges(self, end: str) -> torch.Tensor:
        """Nodes with an edge at one end, ascending: "src" for outgoing ones, "dst" for incoming.

        Raises:
            InputError: There is no such end.
        """
        return self._nodes(end, having=True)

    def nodes_without_edges(self, end: str) -> torch.Tensor:
        """The other nodes than `nodes_with_edges`, ascending."""
        return self._nodes(end, having=False)

    def _nodes(self, end: str, *, having: bool) -> torch.Tensor:
        if end not in ("src", "dst"):
            raise InputError(f"no end {end!r}: give 'src' or 'dst'")

        def build() -> torch.Tensor:
            ends, count = (self.src, self.num_ids) if end == "src" else (self.dst, self.num_nodes)
            return self._nodes_of(ends, count, having)

        return self.step(f"nodes({end}, {having})", build)

    @property
    def csc_indptr(self) -> torch.Tensor:
        """First of each node's outgoing edges, were they by source, and E: source CSC, [N + 1]."""

        def build() -> torch.Tensor:
            counts = torch.bincount(self.src, minlength=self.num_ids)
            return torch.cat([counts.new_zeros(1), counts.cumsum(0)]).int()

        return self.step("csc_indptr", build)

    # Distinct (dst, etype), numbered by dst, then etype.

    @property
    def num_dst_pairs(self) -> int:
        """PD."""
        return self._dst_pairs.node.numel()

    @property
    def dst_pair_of_edge(self) -> torch.Tensor:
        """Destination pair of each edge, [E], non-decreasing."""

        def build() -> torch.Tensor:
            starts = self.dst_pair_indptr
            pairs = torch.arange(len(starts) - 1, dtype=torch.int32, device=starts.device)
            return torch.repeat_interleave(pairs, starts.diff(), output_size=self.num_edges)

        return self.step("dst_pair_of_edge", build)

    @property
    def dst_pair_indptr(self) -> torch.Tensor:
        """First edge of each destination pair, and E, [PD + 1]."""
        return self._dst_pairs.indptr

    @property
    def dst_pair_node(self) -> torch.Tensor:
        """Destination of each pair, [PD], non-decreasing."""
        return self._dst_pairs.node

    @property
    def dst_pair_etype(self) -> torch.Tensor:
        """Type of each destination pair, [PD]."""
        return self._dst_pairs.etype

    @property
    def dst_pair_count(self) -> torch.Tensor:
        """Edges of each destination pair, float32 [PD]."""
        return self.step("dst_pair_count", lambda: torch.diff(self.dst_pair_indptr).float())

    @property
    def node_dst_pair_indptr(self) -> torch.Tensor:
        """First destination pair of each node, and PD, [N + 1]."""
        name = "node_dst_pair_indptr"
        return self._pointers(name, lambda: self.dst_pair_node, self.num_nodes)

    # Distinct (src, etype), numbered by etype, then src.

    @property
    def num_src_pairs(self) -> int:
        """PS."""
        return self.src_pair_node.numel()

    @property
    def src_pair_of_edge(self) -> torch.Tensor:
        """Source pair of each edge, [E]."""
        if self.relations is None:
            return self._column("src_pair_of_edge")
        of_edge, etype = map(self._passing, ("src_pair_of_edge", "etype"))
        shift = self._selected_pairs(self.relations).shift
        return self.step("src_pair_of_edge", lambda: of_edge() + shift.index_select(0, etype()))

    @property
    def src_pair_node(self) -> torch.Tensor:
        """Source of each pair, [PS]."""
        return self._src_pairs.src_pair_node

    @property
    def src_pair_etype(self) -> torch.Tensor:
        """Type of each source pair, [PS], non-decreasing."""
        return self._src_pairs.src_pair_etype

    @property
    def src_pair_etype_ptr(self) -> torch.Tensor:
        """First source pair of each relation, and PS, [R + 1]."""
        name = "src_pair_etype_ptr"
        return self._pointers(name, lambda: self.src_pair_etype, self.num_etypes)

    # Of the whole graph.

    @property
    def edges_per_relation(self) -> np.ndarray:
        """Edges per relation of the whole graph, int64 [R]."""
        whole = self.whole
        return whole.step("edges_per_relation", lambda: whole.rows_per_relation(whole._edges[2]))

    @property
    def relation_stats(self) -> RelationStats:
        """Edges and distinct pairs per relation, of the whole graph."""
        whole = self.whole
        if not whole.is_built("relation_stats"):
            whole._order  # noqa: B018  # of a small graph it brings these

        def build() -> RelationStats:
            pairs = (
                whole.rows_per_relation(whole.src_pair_etype),
                whole.rows_per_relation(whole.dst_pair_etype),
            )
            return RelationStats(whole.edges_per_relation, *pairs)

        return whole.step("relation_stats", build)

    # How it is built.

    def _whole_of(self, graph: HeteroGraph) -> "GraphIndex":
        return GraphIndex.of(graph)

    def _pointers(self, name: str, keys: Callable[[], torch.Tensor], buckets: int) -> torch.Tensor:
        return self.step(name, lambda: index_native.pointers(keys(), buckets))

    def _nodes_of(self, ids: torch.Tensor, count: int, having: bool) -> torch.Tensor:
        return index_native.nodes_of(ids, count, having)

    def rows_per_relation(self, etype: torch.Tensor) -> np.ndarray:
        """How many of some rows each relation has, int64 [R]; `etype` is theirs."""
        return torch.bincount(etype, minlength=self.num_etypes).cpu().numpy()

    @property
    def _order(self) -> EdgeOrder:
        """Of all edges."""
        self.small()  # has it, if there is one
        return self.step("order", self._sorted)

    def _sorted(self) -> EdgeOrder:
        counts = self.num_ids, self.num_etypes
        return EdgeOrder(*index_native.order_edges(*self._edges, *counts))

    def small(self, groups: int = 0) -> SmallIndex | None:
        """What is known of all of a small graph's edges, made at once: that costs no more.

        Args:
            groups: As of `SmallIndex`, where it is made now.
        """
        if self.relations is not None or self._is_large:
            return None
        found = self._built.get("small")
        return found or self.step("small", lambda: self._made_at_once(groups))

    def _made_at_once(self, groups: int) -> SmallIndex:
        if self.num_ids != self.num_nodes:
            groups &= 3
        counts = self.num_ids, self.num_nodes, self.num_etypes
        blocks = num_blocks(self.num_nodes, _BLOCK_NODES)
        return SmallIndex(*self._edges, self._ntype, *counts, blocks, groups)

    def _found(self, name: str) -> Any:
        found = super()._found(name)
        if found is None and (small := super()._found("small")) is not None:
            found = small.step(name)
        return found

    def release(self) -> None:
        """As of `Steps`; what a small graph has made at once goes with the last kernel."""
        with self._lock:
            super().release()
            small: SmallIndex | None = self._built.get("small")
            if small is not None and small.nbytes > SMALL_BYTES:
                self._weakly_held["small"] = weakref.ref(self._built.pop("small"))

    @property
    def nbytes(self) -> int:
        """As of `Steps`, with all that is made at once of a small graph's edges."""
        small: SmallIndex | None = super()._found("small")
        return super().nbytes + (0 if small is None else small.nbytes)

    def _column(self, name: str) -> torch.Tensor:
        """A column of `EdgeOrder`; of some relations it is made when it is first asked for."""
        if self.relations is not None:
            return self.step(name, self._passing(name))
        small = self.small()
        found: torch.Tensor = getattr(self._order, name) if small is None else small.step(name)
        return found

    def _passing(self, name: str) -> Callable[[], torch.Tensor]:
        """Makes a column of `EdgeOrder` that is not kept: most serve to build others alone."""
        if self.relations is None:
            return lambda: getattr(self._order, name)
        # Asked for here: the time it takes is not that of the step which calls this.
        every, at = self.whole._order, self.position
        return lambda: getattr(every, name).index_select(0, at)

    def _selected(self, every: EdgeOrder, relations: tuple[int, ...]) -> torch.Tensor:
        """Where the edges of some relations lie among all: a filter keeps every order."""
        wanted = torch.zeros(self.num_etypes, dtype=torch.bool, device="cpu")
        wanted[list(relations)] = True
        return index_native.select(every.etype, wanted, self.num_edges)

    @property
    def _src_pairs(self) -> EdgeOrder | SelectedPairs:
        return self._order if self.relations is None else self._selected_pairs(self.relations)

    def _selected_pairs(self, relations: tuple[int, ...]) -> SelectedPairs:
        every, starts = self.whole._order, self.whole._src_pair_starts
        return self.step("src_pairs", lambda: select_pairs(every, starts, relations))

    @property
    def _src_pair_starts(self) -> np.ndarray:
        """First source pair of each relation, and PS, [R + 1]."""

        def build() -> np.ndarray:
            return np.append(0, np.cumsum(self.relation_stats.src_pairs))

        return self.step("src_pair_starts", build)

    @property
    def _dst_pairs(self) -> DstPairs:
        dst, etype = map(self._passing, ("dst", "etype"))

        def build() -> DstPairs:
            _, *pairs = index_native.number_pairs(dst(), etype())
            return DstPairs(*pairs)

        return self.step("dst_pairs", build)


_BLOCK_NODES = 1024
"""Nodes in a block of most schedules: others make as many blocks of a small graph."""
_INDEXES = GraphSlot[tuple[int, ...] | None, GraphIndex]()
