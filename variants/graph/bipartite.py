"""Edges from some nodes to others that are numbered on their own, as in a sampler's block."""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from hetune.variants.errors import GraphError
from hetune.variants.graph._arrays import IdArray
from hetune.variants.graph.hetero import HeteroGraph


class BipartiteGraph(HeteroGraph):
    """A graph whose sources and destinations have numbers of their own, each from 0.

    As a `HeteroGraph` it has as many nodes as there are on the larger side.

    Args:
        src: Source of each edge, [E], below `num_sources`.
        dst: Destination of each edge, [E], below `num_targets`.
        etype: Type of each edge, [E]; all 0 by default.
        num_sources: How many sources there are.
        num_targets: How many destinations there are.
        num_etypes: R; by default 1.
        types: A canonical graph with the types of nodes and edges; by default all nodes are alike.
        target_types: Type of each destination, [num_targets], non-decreasing, where `types` is.

    Raises:
        GraphError: Something does not fit.
    """

    def __init__(
        self,
        src: IdArray,
        dst: IdArray,
        etype: IdArray | None = None,
        *,
        num_sources: int,
        num_targets: int,
        num_etypes: int = 1,
        types: HeteroGraph | None = None,
        target_types: Tensor | None = None,
    ) -> None:
        num_nodes = max(num_sources, num_targets)
        if types is None or target_types is None:
            super().__init__(src, dst, etype, num_nodes=num_nodes, num_etypes=num_etypes)
        else:
            ntype = torch.full((num_nodes,), types.num_ntypes - 1, dtype=torch.int32)
            ntype[:num_targets] = target_types
            known = {**types._description(), "canonical_etypes": types.canonical_etypes}
            super().__init__(src, dst, etype, ntype, **known)
        self._sources, self._targets = num_sources, num_targets
        for name, ids, count in (
            ("src", self.src, num_sources), ("dst", self.dst, num_targets)
        ):  # fmt: skip
            if ids.numel() and (largest := int(ids.max())) >= count:
                raise GraphError(
                    f"{name} has the node {largest} but there are {count}: give rows for all nodes"
                )

    @cached_property
    def type_pairs(self) -> tuple[tuple[int, int, int], ...]:
        """As they are declared: types of sources are not known otherwise."""
        if self.declared_etypes is None:
            return super().type_pairs
        ends = zip(self.etype_src_ntype.tolist(), self.etype_dst_ntype.tolist(), strict=True)
        return tuple((number, *pair) for number, pair in enumerate(ends))

    @property
    def num_sources(self) -> int:
        """How many sources there are."""
        return self._sources

    @property
    def num_targets(self) -> int:
        """How many destinations there are."""
        return self._targets
