"""Edges that are used once, such as a batch of triples, and their index."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from functools import cached_property

import torch
from torch import Tensor

from hetune.variants.graph import index_native
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.index import GraphIndex, RelationStats
from hetune.variants.graph.row_groups import EdgesByType
from hetune.variants.graph.state import GraphSlot


class EdgeBatch(HeteroGraph):
    """A graph whose edges are used once: what reads them one by one does so in their own order.

    Nothing that takes time or memory for each node is made for such plans.
    """

    _copies: index_native.IdCopies | None = None
    _counts: tuple[int, int, int] | None = None

    @property
    def counts(self) -> tuple[int, int, int]:
        """Of nodes, types and edges."""
        if self._counts is None:
            self._counts = self.num_nodes, self.num_etypes, self.num_edges
        return self._counts

    @property
    def is_replaceable(self) -> bool:
        """Whether its ids may be replaced: nothing is kept with it that depends on them."""
        index = self.state.known(_INDEXES, None)
        is_indexed = index is not None and index.builds > 0
        return not is_indexed and self.state.is_by_counts and _DERIVED.isdisjoint(vars(self))

    def replace_ids(self, src: Tensor, dst: Tensor, etype: Tensor) -> bool:
        """Copies other ids over its own. False if they do not fit: then it is of no more use.

        Args:
            src: Integers [n].
            dst: Integers [n].
            etype: Integers [n].
        """
        shape, given = self.src.shape, (src, dst, etype)
        for ids in given:
            if type(ids) is not Tensor or ids.layout is not torch.strided:
                return False
            if ids.dtype not in _INTEGERS or ids.shape != shape or not ids.is_cpu:
                return False
        if not self.src.is_cpu:
            return False
        if self._copies is None:
            nodes, types, _ = self.counts
            own = (nodes, 0, self.src), (nodes, 0, self.dst), (types, 0, self.etype)
            self._copies = index_native.IdCopies(own)
        if not self._copies.take(given):
            return False
        if (index := self.state.known(_INDEXES, None)) is not None:
            index.group_again()
        return True


class FreeBatches:
    """Batches that no call uses, to take other ids: binding a small one takes as long as a run.

    Safe with several threads, and where a batch becomes free while another one is looked for.
    """

    def __init__(self) -> None:
        self._free: deque[tuple[tuple[int, int, int], EdgeBatch]] = deque(maxlen=_MOST_BATCHES)
        self._has_large = False

    def give(self, batch: EdgeBatch) -> None:
        """Keeps a batch for another call, if it can take other ids and is worth its memory."""
        counts = batch.counts
        if counts[2] > MOST_EDGES or not batch.is_replaceable:
            return
        self._free.append((counts, batch))
        self._has_large |= counts[2] * _MOST_BATCHES > MOST_EDGES
        while self._has_large and sum(each[0][2] for each in self._free.copy()) > MOST_EDGES:
            with suppress(IndexError):  # another thread took the last one
                self._free.popleft()

    def take(self, num_nodes: int, num_etypes: int, num_edges: int) -> EdgeBatch | None:
        """The batch of these counts that became free last, if there is one."""
        wanted = num_nodes, num_etypes, num_edges
        for each in reversed(self._free.copy()):
            if each[0] == wanted:
                with suppress(ValueError):  # another thread took it
                    self._free.remove(each)
                    return each[1]
        return None


class BatchIndex(GraphIndex):
    """The index of an `EdgeBatch` for plans that read edges and pairs one by one.

    Edges are in the order in which they were given, and pairs are numbered by etype, then node.
    What goes by nodes, such as `indptr`, is not there, and neither are indexes of some relations.
    """

    _by_type: tuple[EdgesByType, ...] = ()

    @classmethod
    def of_batch(cls, graph: HeteroGraph) -> BatchIndex:
        """The index of a batch, cached on the graph."""
        return graph.state.of(_INDEXES, None, lambda: cls(graph))

    @property
    def src_pair_of_edge(self) -> Tensor:
        """Source pair of each edge, [E]."""
        return self._pairs(0)[0]

    @property
    def src_pair_node(self) -> Tensor:
        """Source of each pair, [PS]."""
        return self._pairs(0)[1]

    @property
    def src_pair_etype(self) -> Tensor:
        """Type of each source pair, [PS], non-decreasing."""
        return self._pairs(0)[2]

    @property
    def dst_pair_of_edge(self) -> Tensor:
        """Destination pair of each edge, [E]."""
        return self._pairs(1)[0]

    @property
    def dst_pair_node(self) -> Tensor:
        """Destination of each pair, [PD]."""
        return self._pairs(1)[1]

    @property
    def dst_pair_etype(self) -> Tensor:
        """Type of each destination pair, [PD], non-decreasing."""
        return self._pairs(1)[2]

    @property
    def num_dst_pairs(self) -> int:
        """PD."""
        return self.dst_pair_node.numel()

    @property
    def relation_stats(self) -> RelationStats:
        """Edges and distinct pairs per relation."""

        def build() -> RelationStats:
            pairs = map(self.rows_per_relation, (self.src_pair_etype, self.dst_pair_etype))
            return RelationStats(self.edges_per_relation, *pairs)

        return self.step("relation_stats", build)

    def by_type(self, most: int) -> EdgesByType:
        """The edges in groups of at most so many, which stay in place while edges are replaced."""
        for each in self._by_type:
            if each.most == most:
                return each
        made = EdgesByType(self._edges[2], self.num_etypes, most)
        self._by_type = *self._by_type, made
        return made

    def group_again(self) -> None:
        """Brings the edges by type, where somebody has them, up to date."""
        for each in self._by_type:
            each.group()

    def small(self, groups: int = 0) -> None:
        """Nothing: its edges stay in their own order."""

    def _pairs(self, end: int) -> tuple[Tensor, ...]:
        given = self._edges[end], self._edges[2], self.num_ids, self.num_etypes
        return self.step(f"pairs({end})", lambda: index_native.pairs(*given))

    def _column(self, name: str) -> Tensor:
        return self._edges[_COLUMNS.index(name)] if name in _COLUMNS else self.position


_MOST_BATCHES = 8
"""That are kept: two calls of a step, each twice, as a loss outlives the next step's calls."""
MOST_EDGES = 1 << 16
"""Of all that are kept together: binding takes next to nothing of larger batches' time."""
_COLUMNS = ("src", "dst", "etype")
_INTEGERS = (torch.int64, torch.int32)
_DERIVED = {
    name
    for kind in EdgeBatch.__mro__
    for name, made in vars(kind).items()
    if isinstance(made, cached_property)
}
_INDEXES = GraphSlot[None, BatchIndex](by_counts=True)
