"""The same indexes on another device, built there with torch's own operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor

from hetune.variants.graph._order import DstPairs, EdgeOrder
from hetune.variants.graph.edge_batch import BatchIndex, EdgeBatch
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.index import GraphIndex
from hetune.variants.graph.state import GraphSlot
from hetune.variants.graph.streams import synchronize

_Built = TypeVar("_Built")


class DeviceIndex(GraphIndex):
    """A `GraphIndex` whose tensors lie on a device, equal to that of the CPU in every entry.

    Edges travel to the device once, if they are not there. What travels back are counts: how many
    pairs there are, in all and of each relation.

    Attributes:
        device: Where the tensors are.
    """

    def __init__(
        self, graph: HeteroGraph, device: torch.device, relations: tuple[int, ...] | None = None
    ) -> None:
        """Prefer `DeviceIndex.on`, which shares indexes."""
        self.device = device
        super().__init__(graph, relations)
        synchronize(device)

    def step(self, name: str, build: Callable[[], _Built]) -> _Built:
        """As of `Steps`; what is built is there for all streams."""

        def synchronized() -> _Built:
            built = build()
            synchronize(self.device)
            return built

        return super().step(name, synchronized)

    @classmethod
    def on(
        cls, graph: HeteroGraph, device: torch.device, relations: tuple[int, ...] | None = None
    ) -> DeviceIndex:
        """The index of the graph's edges of these relations on a device, cached on the graph.

        Args:
            graph: The graph, on any device.
            device: Where the index is to be.
            relations: Relations in any order; None for all, () for an index without edges.
        """
        if relations is not None:
            relations = tuple(sorted(set(relations)))
        key = str(device), relations
        return graph.state.of(_INDEXES, key, lambda: cls(graph, device, relations))

    # How it is built.

    def _whole_of(self, graph: HeteroGraph) -> GraphIndex:
        return DeviceIndex.on(graph, self.device)

    def _pointers(self, name: str, keys: Callable[[], Tensor], buckets: int) -> Tensor:
        def build() -> Tensor:
            bounds = torch.arange(buckets + 1, dtype=torch.int32, device=self.device)
            return torch.searchsorted(keys(), bounds, out_int32=True)

        return self.step(name, build)

    def _nodes_of(self, ids: Tensor, count: int, having: bool) -> Tensor:
        has_edge = torch.zeros(count, dtype=torch.bool, device=self.device)
        has_edge[ids.long()] = True
        return (has_edge == having).nonzero().flatten().int()

    def small(self, groups: int = 0) -> None:
        """Nothing: it is made on the CPU."""

    def _sorted(self) -> EdgeOrder:
        src, dst, etype = self._edges
        by_source = torch.argsort(src, stable=True)
        pair = dst.long() * self.num_etypes + etype
        ids = by_source[torch.argsort(pair[by_source], stable=True)]
        src, dst, etype = src[ids], dst[ids], etype[ids]
        nodes = max(self.num_ids, 1)
        keys, of_edge = torch.unique(etype.long() * nodes + src, return_inverse=True)
        pairs = of_edge.int(), (keys % nodes).int(), (keys // nodes).int()
        return EdgeOrder(ids.int(), src.int(), dst.int(), etype.int(), *pairs)

    def _selected(self, every: EdgeOrder, relations: tuple[int, ...]) -> Tensor:
        wanted = torch.zeros(self.num_etypes, dtype=torch.bool, device=self.device)
        wanted[list(relations)] = True
        return wanted[every.etype.long()].nonzero().flatten().int()

    @property
    def _dst_pairs(self) -> DstPairs:
        dst, etype = map(self._passing, ("dst", "etype"))

        def build() -> DstPairs:
            types = max(self.num_etypes, 1)
            keys, counts = torch.unique_consecutive(
                dst().long() * types + etype(), return_counts=True
            )
            start = torch.zeros(len(counts) + 1, dtype=torch.int32, device=self.device)
            start[1:] = counts.cumsum(0)
            return DstPairs(start, (keys // types).int(), (keys % types).int())

        return self.step("dst_pairs", build)


class DeviceBatchIndex(BatchIndex, DeviceIndex):
    """The index of an `EdgeBatch` on another device: nothing is sorted."""

    @classmethod
    def on_device(cls, graph: EdgeBatch, device: torch.device) -> DeviceBatchIndex:
        """The index of a batch, cached on the graph."""
        return graph.state.of(_BATCHES, str(device), lambda: cls(graph, device))

    def _pairs(self, end: int) -> tuple[Tensor, ...]:
        ends, etype, nodes = self._edges[end], self._edges[2], max(self.num_ids, 1)

        def build() -> tuple[Tensor, ...]:
            keys, of_edge = torch.unique(etype.long() * nodes + ends, return_inverse=True)
            return of_edge.int(), (keys % nodes).int(), (keys // nodes).int()

        return self.step(f"pairs({end})", build)


_BATCHES = GraphSlot[str, DeviceBatchIndex]()
_INDEXES = GraphSlot[tuple[str, tuple[int, ...] | None], DeviceIndex]()
