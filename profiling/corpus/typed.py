"""The general maker: typed edges between typed nodes, with every property under control."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hetune.profiling.corpus import draw
from hetune.profiling.corpus.assemble import assembled
from hetune.profiling.corpus.options import option, share
from hetune.variants.errors import CampaignError
from hetune.variants.graph.hetero import HeteroGraph

_TYPE_BIAS = 0.7
"""Exponent of a node type's size in how often relations have it."""
_TRIES = 8
"""How often the node types of a relation are drawn until they have room for its edges."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Typed:
    """Relations of Zipf's sizes, each between two node types and so many distinct nodes.

    Attributes:
        nodes: Number of nodes.
        edges: Number of edges, before their inverses are added.
        etypes: Number of relations, before their inverses are added.
        ntypes: Number of node types; at most two for each relation.
        seed: Where chance starts.
        skew: Exponent of the sizes of relations: 0 makes them equal.
        ntype_skew: Exponent of the sizes of node types.
        src_ratio: Distinct (source, relation) pairs as a share of the edges, as far as there are
            nodes for it; 1 for as many as possible.
        dst_ratio: The same for destinations.
        spread: How far relations differ in these shares: standard deviation of the logarithm.
        src_law: How a relation's edges are shared out among its sources: `draw.LAWS`.
        dst_law: The same for destinations.
        src_exponent: Of the law "power" for sources.
        dst_exponent: Of the law "power" for destinations.
        src_hub: Share of each relation's edges that one source takes.
        dst_hub: The same for destinations.
        popularity: How much relations prefer the same nodes: 1 not at all, 3 strongly.
        isolated: Share of nodes without edges.
        locality: How near to each other the ids of sources and destinations lie: 0 not, 1 as
            near as their numbers of edges allow.
        ordered: Whether low ids are the popular nodes; else ids carry no order.
        undirected: Add to each edge its inverse, of the same relation.
        inverse: Add to each edge its inverse, of a relation of its own.
    """

    nodes: int = option(low=1, high=2**31 - 1)
    edges: int = option(low=0, high=2**30 - 1)
    etypes: int = option(1, low=1, high=2**20)
    ntypes: int = option(1, low=1, high=2**20)
    seed: int = option(0, low=0)
    skew: float = option(0.0, low=0.0, high=4.0)
    ntype_skew: float = option(0.0, low=0.0, high=4.0)
    src_ratio: float = share(1.0)
    dst_ratio: float = share(1.0)
    spread: float = option(0.0, low=0.0, high=4.0)
    src_law: str = option("uniform", choices=draw.LAWS)
    dst_law: str = option("uniform", choices=draw.LAWS)
    src_exponent: float = option(0.8, low=0.0, high=4.0)
    dst_exponent: float = option(0.8, low=0.0, high=4.0)
    src_hub: float = share(0.0)
    dst_hub: float = share(0.0)
    popularity: float = option(1.0, low=1.0, high=8.0)
    isolated: float = share(0.0)
    locality: float = share(0.0)
    ordered: bool = option(False)
    undirected: bool = option(False)
    inverse: bool = option(False)

    def size(self) -> tuple[int, int]:
        """Nodes and edges, exactly."""
        return self.nodes, self.edges << (self.undirected + self.inverse)

    def make(self) -> HeteroGraph:
        """The graph; its edge types join one pair of node types each.

        Raises:
            CampaignError: There are more node types than nodes, or than relations can join, or
                an undirected relation would join two types.
        """
        if self.ntypes > min(self.nodes, 2 * self.etypes):
            raise CampaignError(
                f"{self.ntypes} ntypes with {self.nodes} nodes and {self.etypes} etypes: "
                "give at least one node for each, and a relation for every two"
            )
        if self.undirected and self.ntypes > 1:
            raise CampaignError(
                f"undirected with {self.ntypes} ntypes: a relation joins a type to itself only "
                "where there is one; take inverse = true"
            )
        rng = draw.generator("typed", self.seed)
        counts = draw.zipf_sizes(self.nodes, self.ntypes, self.ntype_skew)
        edges = draw.zipf_sizes(self.edges, self.etypes, self.skew)
        ends = self._ends(counts, edges, rng)
        # Sizes so far fall with the number of the relation, as they did for the node types.
        order = rng.permutation(self.etypes)
        edges, ends = edges[order], (ends[0][order], ends[1][order])
        src, dst = self._join(counts, edges, ends, rng)
        etype = np.repeat(np.arange(self.etypes), edges)
        return assembled(
            src, dst, etype, counts, ends, undirected=self.undirected, inverse=self.inverse
        )

    def _ends(
        self, counts: np.ndarray, edges: np.ndarray, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Node type of each relation's sources and of its destinations, int64 [R] both."""
        cumulated = np.cumsum(counts.astype(np.float64) ** _TYPE_BIAS)
        drawn = np.searchsorted(cumulated, cumulated[-1] * rng.random((2, _TRIES, len(edges))))
        drawn = np.minimum(drawn, self.ntypes - 1)
        drawn[:, -1] = 0  # the largest
        # A node type of each rank in the relation of that rank: no type is left out.
        first = np.arange(min(self.ntypes, self.etypes))
        rest = np.arange(self.etypes, self.ntypes)
        drawn[0, :, first] = first[:, None]
        drawn[1, :, rest - self.etypes] = rest[:, None]
        fits = counts[drawn[0]] * counts[drawn[1]] >= 2 * edges
        chosen = np.where(fits.any(axis=0), fits.argmax(axis=0), _TRIES - 1)
        relation = np.arange(self.etypes)
        swap = rng.random(self.etypes) < 0.5
        one, other = drawn[0, chosen, relation], drawn[1, chosen, relation]
        return np.where(swap, other, one), np.where(swap, one, other)

    def _join(
        self,
        counts: np.ndarray,
        edges: np.ndarray,
        ends: tuple[np.ndarray, np.ndarray],
        rng: np.random.Generator,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Global ids of sources and destinations, int64 [E] both, by relation."""
        active = np.maximum(1, counts - np.rint(self.isolated * counts).astype(np.int64))
        sides = (
            (self.src_ratio, self.src_law, self.src_exponent, self.src_hub),
            (self.dst_ratio, self.dst_law, self.dst_exponent, self.dst_hub),
        )
        distinct, ranks = [], []
        for end, (ratio, *_) in zip(ends, sides, strict=True):
            size = draw.distinct_counts(edges, active[end], ratio, self.spread, rng)
            distinct.append(size)
            ranks.append(draw.distinct_ranks(size, active[end], self.popularity, rng))
        draw.reach_all(active, ends, distinct, ranks, rng)
        ids = self._ids(counts, active, rng)
        first_rank = np.cumsum(active) - active
        first_id = np.cumsum(counts) - counts
        nodes, places = [], []
        for end, size, rank, (_, law, exponent, hub) in zip(
            ends, distinct, ranks, sides, strict=True
        ):
            starts = np.cumsum(size) - size
            slot = draw.slots(edges, size, law, exponent, hub, rng)
            relation = np.repeat(np.arange(self.etypes), edges)
            node = ids[first_rank[end[relation]] + rank[starts[relation] + slot]]
            nodes.append(node)
            ntype = end[relation]
            places.append((node - first_id[ntype]) / counts[ntype])
        return self._paired(edges, nodes, places, rng)

    def _ids(self, counts: np.ndarray, active: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Global id of each node that may have edges, by type and rank, int64 [sum of active]."""
        first = np.cumsum(counts) - counts
        parts = []
        for start, count, size in zip(first, counts, active, strict=True):
            chosen = rng.permutation(count)[:size]
            parts.append(start + (np.sort(chosen) if self.ordered else chosen))
        return np.concatenate(parts)

    def _paired(
        self,
        edges: np.ndarray,
        nodes: list[np.ndarray],
        places: list[np.ndarray],
        rng: np.random.Generator,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Sources and destinations of each relation put together: by chance, or by place."""
        relation = np.repeat(np.arange(self.etypes), edges)
        src, dst = nodes
        noise = rng.random((2, len(src)))
        if self.locality > 0:
            noise = (1 - self.locality) * noise + self.locality * np.stack(places)
            src = src[np.argsort(relation + 0.999 * noise[0], kind="stable")]
        return src, dst[np.argsort(relation + 0.999 * noise[1], kind="stable")]
