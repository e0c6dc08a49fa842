"""The indexes that kernels walk: destination CSR, source CSC, pairs, dense rows, row groups."""

import threading
import time
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
import torch

from hetune.variants.errors import GraphError, InputError
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.index_primitives import primitives
from hetune.variants.graph.row_groups import (
    RowGroups,
    as_int32,
    check_block_nodes,
    cut_by_type,
    node_type_groups,
)

__all__ = ["GraphIndex", "RelationStats", "RowGroups", "node_type_groups"]

_T = TypeVar("_T")
_LARGEST_ID = 2**31 - 1


@dataclass(frozen=True)
class RelationStats:
    """Counts per relation of the whole graph, int64 [R].

    Attributes:
        edges: Edges.
        src_pairs: Distinct sources.
        dst_pairs: Distinct destinations.
    """

    edges: np.ndarray
    src_pairs: np.ndarray
    dst_pairs: np.ndarray


class _Order(NamedTuple):
    position: torch.Tensor | None
    edge_id: torch.Tensor
    src: torch.Tensor
    dst: torch.Tensor
    etype: torch.Tensor
    src_pair_of_edge: torch.Tensor
    src_pair_node: torch.Tensor
    src_pair_etype: torch.Tensor


class _DstPairs(NamedTuple):
    of_edge: torch.Tensor
    indptr: torch.Tensor
    node: torch.Tensor
    etype: torch.Tensor


class _DenseSpans(NamedTuple):
    """Per relation: its first dense row (int64 [R + 1]) and the first node of its source type."""

    row_ptr: np.ndarray
    first_node: np.ndarray


class GraphIndex:
    """Indexes of a set of a graph's edges: all of them, or those of some relations.

    Everything is built when it is first asked for, once, and kept; all tensors are int32, on the
    CPU, and must not be written to. The *canonical order* of edges is by (dst, etype, src), equal
    ones as the graph has them. Safe to use from several threads. Keeps the graph's arrays alive,
    but not the graph, which owns its indexes. Let E be the number of edges of the index, N of
    nodes, R of relations, PS and PD of distinct (src, etype) and (dst, etype) pairs.

    Attributes:
        relations: The relations it is limited to, ascending; None for all edges.
        num_edges: E.
        num_nodes: N.
        num_etypes: R.
        build_seconds: What has been built, and the seconds that took.
    """

    def __init__(self, graph: HeteroGraph, relations: tuple[int, ...] | None = None) -> None:
        """Prefer `GraphIndex.of`, which shares indexes."""
        self.relations = relations
        self.num_nodes, self.num_etypes = graph.num_nodes, graph.num_etypes
        self.build_seconds: dict[str, float] = {}
        self._graph = weakref.ref(graph)
        self._node_offsets = np.asarray(graph.node_offsets)
        self._edges = graph.src.cpu(), graph.dst.cpu(), graph.etype.cpu()
        self._whole = self if relations is None else GraphIndex.of(graph)
        self._lock = threading.RLock()
        self._built: dict[str, Any] = {}
        self._nested_seconds = 0.0
        self.num_edges = graph.num_edges
        if relations is not None:
            self.num_edges = int(self._whole._edges_per_relation[list(relations)].sum())

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
        return graph.cached(("index", relations), lambda: cls(graph, relations))

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
        return self._order.edge_id

    @property
    def position(self) -> torch.Tensor:
        """Position of each edge in the canonical order of all the graph's edges, [E]."""
        position = self._order.position
        return self._iota(self.num_edges) if position is None else position

    @property
    def src(self) -> torch.Tensor:
        """Source of each edge, [E]."""
        return self._order.src

    @property
    def dst(self) -> torch.Tensor:
        """Destination of each edge, [E], non-decreasing."""
        return self._order.dst

    @property
    def etype(self) -> torch.Tensor:
        """Type of each edge, [E]."""
        return self._order.etype

    @property
    def indptr(self) -> torch.Tensor:
        """First incoming edge of each node, and E: destination CSR, [N + 1]."""
        return self._pointers("indptr", lambda: self.dst, self.num_nodes)

    @property
    def in_degree(self) -> torch.Tensor:
        """Incoming edges of each node, [N]."""
        return self._step("in_degree", lambda: torch.diff(self.indptr))

    def nodes_with_edges(self, end: str) -> torch.Tensor:
        """Nodes with an edge at one end, ascending: "src" for outgoing ones, "dst" for incoming.

        Raises:
            InputError: There is no such end.
        """
        if end not in ("src", "dst"):
            raise InputError(f"no end {end!r}: give 'src' or 'dst'")

        def build() -> torch.Tensor:
            has_edge = torch.zeros(self.num_nodes, dtype=torch.bool)
            has_edge[self.src if end == "src" else self.dst] = True
            return has_edge.nonzero().flatten().int()

        return self._step(f"nodes_with_edges({end})", build)

    @property
    def degree_order(self) -> torch.Tensor:
        """Nodes by incoming edges, most first, equal ones ascending, [N]."""

        def build() -> torch.Tensor:
            degree = self.in_degree
            buckets = int(degree.max()) + 1 if self.num_nodes else 1
            return primitives().sort_by_key(degree, buckets, descending=True)

        return self._step("degree_order", build)

    @property
    def csc_edge(self) -> torch.Tensor:
        """Edges (canonical positions) by source, equal ones ascending, [E]."""
        return self._step(
            "csc_edge", lambda: primitives().sort_by_key(self.src, max(self.num_nodes, 1))
        )

    @property
    def csc_indptr(self) -> torch.Tensor:
        """First entry of each node in `csc_edge`, and E: source CSC, [N + 1]."""

        def build() -> torch.Tensor:
            counts = primitives().histogram(self.src, self.num_nodes)
            return as_int32(np.append(0, np.cumsum(counts.numpy())))

        return self._step("csc_indptr", build)

    # Distinct (dst, etype), numbered by dst, then etype.

    @property
    def num_dst_pairs(self) -> int:
        """PD."""
        return self._dst_pairs.node.numel()

    @property
    def dst_pair_of_edge(self) -> torch.Tensor:
        """Destination pair of each edge, [E], non-decreasing."""
        return self._dst_pairs.of_edge

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
        return self._step("dst_pair_count", lambda: torch.diff(self.dst_pair_indptr).float())

    @property
    def node_dst_pair_indptr(self) -> torch.Tensor:
        """First destination pair of each node, and PD, [N + 1]."""
        name = "node_dst_pair_indptr"
        return self._pointers(name, lambda: self.dst_pair_node, self.num_nodes)

    # Distinct (src, etype), numbered by etype, then src.

    @property
    def num_src_pairs(self) -> int:
        """PS."""
        return self._order.src_pair_node.numel()

    @property
    def src_pair_of_edge(self) -> torch.Tensor:
        """Source pair of each edge, [E]."""
        return self._order.src_pair_of_edge

    @property
    def src_pair_node(self) -> torch.Tensor:
        """Source of each pair, [PS]."""
        return self._order.src_pair_node

    @property
    def src_pair_etype(self) -> torch.Tensor:
        """Type of each source pair, [PS], non-decreasing."""
        return self._order.src_pair_etype

    @property
    def src_pair_etype_ptr(self) -> torch.Tensor:
        """First source pair of each relation, and PS, [R + 1]."""
        name = "src_pair_etype_ptr"
        return self._pointers(name, lambda: self.src_pair_etype, self.num_etypes)

    # A row for every node of the source type of every relation that has edges here, numbered by
    # etype, then node.

    @property
    def num_src_dense(self) -> int:
        """PSD, the dense rows; they may be many more than edges."""
        return int(self._dense_spans.row_ptr[-1])

    @property
    def src_dense_of_edge(self) -> torch.Tensor:
        """Dense row of each edge's source, [E]."""

        def build() -> torch.Tensor:
            self._check_dense()
            spans = self._dense_spans
            shift = as_int32(spans.row_ptr[:-1] - spans.first_node)
            return self.src + shift.index_select(0, self.etype)

        return self._step("src_dense_of_edge", build)

    @property
    def src_dense_node(self) -> torch.Tensor:
        """Node of each dense row, [PSD]."""
        return self._dense_rows[0]

    @property
    def src_dense_etype(self) -> torch.Tensor:
        """Type of each dense row, [PSD], non-decreasing."""
        return self._dense_rows[1]

    # Cuts for parallel work.

    def node_blocks(self, block_nodes: int) -> torch.Tensor:
        """Cut the nodes into consecutive blocks of about equal work, [B + 1].

        There are as many blocks as it takes for `block_nodes` nodes in each. The work (4 for a
        node, 1 for an incoming edge, 2 for a destination pair, over all the graph's edges) is
        shared out evenly, unless a block is a single node, and no block has more than twice as
        many nodes. The cuts do not depend on the number of threads; all indexes of a graph share
        them.

        Raises:
            InputError: `block_nodes` is not positive.
        """
        check_block_nodes(block_nodes)
        whole = self._whole

        def build() -> torch.Tensor:
            work = 4 * whole.num_nodes + whole.num_edges + 2 * whole.num_dst_pairs
            share = -(-work // max(-(-whole.num_nodes // block_nodes), 1))
            # A little more than the share, or rounding would leave a sliver for one more block.
            limit = share + share // 64 + 8
            pointers = whole.indptr, whole.node_dst_pair_indptr
            return primitives().node_blocks(*pointers, 2 * block_nodes, limit)

        return whole._step(f"node_blocks({block_nodes})", build)

    def most_rows_in_block(self, space: str, block_nodes: int) -> int:
        """The most rows that a block of `node_blocks(block_nodes)` has.

        Args:
            space: "node", "dst_pair" (of this index's edges) or "edge" (of all edges).
            block_nodes: As for `node_blocks`.
        """

        def build() -> int:
            bounds = self.node_blocks(block_nodes)
            if space == "dst_pair":
                bounds = self.node_dst_pair_indptr.index_select(0, bounds)
            elif space == "edge":
                bounds = self._whole.indptr.index_select(0, bounds)
            return int(torch.diff(bounds).max()) if bounds.numel() > 1 else 0

        return self._step(f"most_rows_in_block({space}, {block_nodes})", build)

    def row_groups(self, space: str, block_nodes: int | None) -> RowGroups:
        """Group the rows of a space by etype.

        Args:
            space: "edge", "dst_pair", "src_pair" or "src_dense".
            block_nodes: Group inside the blocks of destination nodes that
                `node_blocks(block_nodes)` yields, rows ascending in each group; only for "edge"
                and "dst_pair". None: group all rows, in groups of at most 512 rows and blocks of
                about as many.

        Raises:
            InputError: There is no such space, or its rows have no destination to group by.
            GraphError: There are more than 2^31 - 1 dense rows.
        """
        if space not in ("edge", "dst_pair", "src_pair", "src_dense"):
            raise InputError(
                f"no rows of {space!r}: the spaces are 'edge', 'dst_pair', 'src_pair', 'src_dense'"
            )
        if block_nodes is None:
            return self._step(f"row_groups({space})", lambda: self._groups_by_etype(space))
        if space not in ("edge", "dst_pair"):
            raise InputError(
                f"rows of {space!r} have no destination node to group by: give block_nodes=None"
            )

        def build() -> RowGroups:
            blocks = self.node_blocks(block_nodes)
            if space == "edge":
                etype, indptr = self.etype, self.indptr
            else:
                etype, indptr = self.dst_pair_etype, self.node_dst_pair_indptr
            row_ptr = indptr.index_select(0, blocks)
            return RowGroups(*primitives().group_rows(etype, row_ptr, self.num_etypes))

        return self._step(f"row_groups({space}, {block_nodes})", build)

    # What it costs.

    @property
    def relation_stats(self) -> RelationStats:
        """Edges and distinct pairs per relation, of the whole graph."""
        whole = self._whole

        def build() -> RelationStats:
            dst_pairs = primitives().histogram(whole.dst_pair_etype, whole.num_etypes)
            src_pairs = np.diff(whole.src_pair_etype_ptr.numpy().astype(np.int64))
            return RelationStats(whole._edges_per_relation, src_pairs, dst_pairs.numpy())

        return whole._step("relation_stats", build)

    @property
    def nbytes(self) -> int:
        """Bytes of the tensors that have been built."""
        with self._lock:
            found = {t.data_ptr(): t.nbytes for t in _tensors(self._built.values())}
        return sum(found.values())

    # How it is built.

    def _step(self, name: str, build: Callable[[], _T]) -> _T:
        """What `build` yields, built and timed once; the time excludes steps it triggers."""
        if name not in self._built:
            with self._lock:
                if name not in self._built:
                    outer, self._nested_seconds = self._nested_seconds, 0.0
                    start = time.perf_counter()
                    try:
                        built = build()
                        seconds = time.perf_counter() - start
                        self.build_seconds[name] = seconds - self._nested_seconds
                        self._built[name] = built
                    finally:
                        self._nested_seconds = outer + time.perf_counter() - start
        return cast(_T, self._built[name])

    def _pointers(self, name: str, keys: Callable[[], torch.Tensor], buckets: int) -> torch.Tensor:
        return self._step(name, lambda: primitives().pointers(keys(), buckets))

    def _iota(self, count: int) -> torch.Tensor:
        return self._step(f"arange({count})", lambda: torch.arange(count, dtype=torch.int32))

    @property
    def _edges_per_relation(self) -> np.ndarray:
        return self._step(
            "edges_per_relation",
            lambda: primitives().histogram(self._edges[2], self.num_etypes).numpy(),
        )

    @property
    def _order(self) -> _Order:
        if self.relations is None:
            return self._step("order", self._sort_edges)
        if self.num_edges:
            self._whole.src_pair_etype_ptr  # noqa: B018  built first: its time is not this index's
        return self._step("order", self._select_edges)

    def _sort_edges(self) -> _Order:
        counts = self.num_nodes, self.num_etypes
        return _Order(None, *primitives().order_edges(*self._edges, *counts))

    def _select_edges(self) -> _Order:
        """The edges of `relations` out of the whole index: a filter keeps every order."""
        if not self.num_edges:
            return _Order(*(torch.empty(0, dtype=torch.int32) for _ in _Order._fields))
        whole = self._whole
        chosen = np.asarray(self.relations)
        wanted = torch.zeros(self.num_etypes, dtype=torch.bool)
        wanted[torch.from_numpy(chosen)] = True
        position = primitives().select(whole.etype, wanted, self.num_edges)
        etype = whole.etype.index_select(0, position)
        # The source pairs of a relation are contiguous: only their start moves.
        start = whole.src_pair_etype_ptr.numpy()
        spans = [slice(start[r], start[r + 1]) for r in chosen]
        pair_node = torch.cat([whole.src_pair_node[span] for span in spans])
        pair_etype = torch.cat([whole.src_pair_etype[span] for span in spans])
        shift = np.zeros(self.num_etypes, dtype=np.int32)
        lengths = np.diff(start)[chosen]
        shift[chosen] = np.cumsum(lengths) - lengths - start[chosen]
        pair_of_edge = whole.src_pair_of_edge.index_select(0, position)
        pair_of_edge += torch.from_numpy(shift).index_select(0, etype)
        ids, src, dst = (a.index_select(0, position) for a in (whole.edge_id, whole.src, whole.dst))
        return _Order(position, ids, src, dst, etype, pair_of_edge, pair_node, pair_etype)

    @property
    def _dst_pairs(self) -> _DstPairs:
        return self._step(
            "dst_pairs", lambda: _DstPairs(*primitives().number_pairs(self.dst, self.etype))
        )

    @property
    def _dense_spans(self) -> _DenseSpans:
        """Found from the edges: source pairs are sorted by node, so the ends tell the types.

        A relation whose sources are of several types spans all of them, so that this also works
        where no canonical edge types exist.
        """

        def build() -> _DenseSpans:
            ptr, offsets = self.src_pair_etype_ptr.numpy(), self._node_offsets
            nodes = self.src_pair_node.numpy()
            rows, first = np.zeros(self.num_etypes + 1, np.int64), np.zeros(self.num_etypes, int)
            used = np.flatnonzero(np.diff(ptr))
            low = np.searchsorted(offsets, nodes[ptr[used]], side="right") - 1
            high = np.searchsorted(offsets, nodes[ptr[used + 1] - 1], side="right")
            first[used] = offsets[low]
            rows[used + 1] = offsets[high] - offsets[low]
            return _DenseSpans(np.cumsum(rows), first)

        return self._step("dense_spans", build)

    def _check_dense(self) -> None:
        if self.num_src_dense > _LARGEST_ID:
            raise GraphError(
                f"{self.num_src_dense} dense (node, etype) rows do not fit 32-bit ids: use a "
                "variant with source pairs"
            )

    @property
    def _dense_rows(self) -> tuple[torch.Tensor, torch.Tensor]:
        def build() -> tuple[torch.Tensor, torch.Tensor]:
            self._check_dense()
            ptr, first = self._dense_spans
            node, etype = (np.empty(self.num_src_dense, np.int32) for _ in range(2))
            for r in np.flatnonzero(np.diff(ptr)):
                span = slice(ptr[r], ptr[r + 1])
                node[span] = np.arange(first[r], first[r] + ptr[r + 1] - ptr[r])
                etype[span] = r
            return torch.from_numpy(node), torch.from_numpy(etype)

        return self._step("src_dense", build)

    def _groups_by_etype(self, space: str) -> RowGroups:
        if space in ("edge", "dst_pair"):
            etype = self.etype if space == "edge" else self.dst_pair_etype
            counts = primitives().histogram(etype, self.num_etypes).numpy()
            rows = primitives().sort_by_key(etype, max(self.num_etypes, 1))
            return cut_by_type(rows, counts)
        if space == "src_pair":
            return cut_by_type(
                self._iota(self.num_src_pairs), np.diff(self.src_pair_etype_ptr.numpy())
            )
        self._check_dense()
        return cut_by_type(self._iota(self.num_src_dense), np.diff(self._dense_spans.row_ptr))


def _tensors(values: Any) -> Iterator[torch.Tensor]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, tuple):
            yield from _tensors(value)
        elif is_dataclass(value):
            yield from _tensors(getattr(value, field.name) for field in fields(value))
