"""Makers of graphs whose shape is not one of chance alone: roads, near-cliques, communities."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hetune.profiling.corpus import draw
from hetune.profiling.corpus.assemble import assembled, untyped
from hetune.profiling.corpus.options import option, share
from hetune.variants.graph.hetero import HeteroGraph

_STEPS = ((0, 1), (1, 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Road:
    """A grid of crossings from which roads are missing; every road leads both ways.

    Attributes:
        nodes: About how many crossings: as many as a rectangle has.
        degree: Mean number of roads at a crossing, at most 4.
        etypes: Kinds of roads; a street keeps its kind from end to end.
        seed: Where chance starts.
        shuffled: Whether ids carry no order; else they go row by row.
        inverse: Add to each edge its inverse, of a relation of its own.
    """

    nodes: int = option(low=1, high=2**28)
    degree: float = option(2.5, low=0.0, high=4.0)
    etypes: int = option(1, low=1, high=2**16)
    seed: int = option(0, low=0)
    shuffled: bool = option(False)
    inverse: bool = option(False)

    def size(self) -> tuple[int, int]:
        """Nodes and edges, exactly."""
        rows, columns = self._shape()
        return rows * columns, 2 * self._roads(rows, columns) << self.inverse

    def make(self) -> HeteroGraph:
        """The graph."""
        rng = draw.generator("road", self.seed)
        rows, columns = self._shape()
        node = np.arange(rows * columns).reshape(rows, columns)
        ends = [
            (
                node[: rows - down, : columns - right].ravel(),
                node[down:, right:].ravel(),
                # Streets along a row are numbered after those along a column.
                np.indices((rows - down, columns - right))[0 if right else 1].ravel()
                + (columns if right else 0),
            )
            for down, right in _STEPS
        ]
        one, other, street = (np.concatenate(part) for part in zip(*ends, strict=True))
        kept = np.sort(rng.permutation(len(one))[: self._roads(rows, columns)])
        kinds = rng.integers(0, self.etypes, rows + columns)
        if self.shuffled:
            ids = rng.permutation(rows * columns)
            one, other = ids[one], ids[other]
        return assembled(
            one[kept],
            other[kept],
            kinds[street[kept]],
            np.array([rows * columns]),
            untyped(self.etypes),
            undirected=True,
            inverse=self.inverse,
        )

    def _shape(self) -> tuple[int, int]:
        rows = math.isqrt(self.nodes)
        return rows, self.nodes // rows

    def _roads(self, rows: int, columns: int) -> int:
        room = rows * (columns - 1) + columns * (rows - 1)
        return min(room, round(rows * columns * self.degree / 2))


@dataclass(frozen=True, slots=True, kw_only=True)
class Clique:
    """Few nodes, of which nearly each has an edge to each, of one of many relations.

    Attributes:
        nodes: Number of nodes.
        density: Share of the ordered pairs of different nodes that have an edge.
        etypes: Number of relations.
        skew: Exponent of the sizes of relations.
        groups: Into so many groups the nodes fall; which relation an edge has depends on its
            nodes' groups as far as `order` says.
        order: Share of edges whose relation follows from the two groups.
        seed: Where chance starts.
        inverse: Add to each edge its inverse, of a relation of its own.
    """

    nodes: int = option(low=2, high=2**14)
    density: float = share(0.95)
    etypes: int = option(25, low=1, high=2**16)
    skew: float = option(0.5, low=0.0, high=4.0)
    groups: int = option(8, low=1, high=2**10)
    order: float = share(0.5)
    seed: int = option(0, low=0)
    inverse: bool = option(False)

    def size(self) -> tuple[int, int]:
        """Nodes and edges, exactly."""
        return self.nodes, round(self.nodes * (self.nodes - 1) * self.density) << self.inverse

    def make(self) -> HeteroGraph:
        """The graph."""
        rng = draw.generator("clique", self.seed)
        pairs = self.nodes * (self.nodes - 1)
        chosen = np.sort(rng.permutation(pairs)[: round(pairs * self.density)])
        src, step = chosen // (self.nodes - 1), chosen % (self.nodes - 1)
        dst = step + (step >= src)
        weights = np.cumsum(np.arange(1.0, self.etypes + 1) ** -self.skew)
        group = rng.integers(0, self.groups, self.nodes)
        ruled = self._relations(rng.random((self.groups, self.groups)), weights)
        free = self._relations(rng.random(len(src)), weights)
        follows = rng.random(len(src)) < self.order
        etype = np.where(follows, ruled[group[src], group[dst]], free)
        return assembled(
            src, dst, etype, np.array([self.nodes]), untyped(self.etypes), inverse=self.inverse
        )

    def _relations(self, u: np.ndarray, weights: np.ndarray) -> np.ndarray:
        found: np.ndarray = np.minimum(np.searchsorted(weights, weights[-1] * u), self.etypes - 1)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Community:
    """Groups of nodes that are joined far more among themselves than to others.

    Attributes:
        nodes: Number of nodes.
        edges: Number of edges, before their inverses are added.
        communities: Number of groups; at most `nodes`.
        skew: Exponent of the sizes of groups.
        inside: Share of edges that stay within a group.
        etypes: Number of relations.
        own: Share of edges whose relation is their group's own; the others' is drawn.
        exponent: Of the power law of degrees within a group; 0 for equal chances.
        seed: Where chance starts.
        shuffled: Whether ids carry no order; else a group's nodes lie side by side.
        undirected: Add to each edge its inverse, of the same relation.
        inverse: Add to each edge its inverse, of a relation of its own.
    """

    nodes: int = option(low=1, high=2**31 - 1)
    edges: int = option(low=0, high=2**30 - 1)
    communities: int = option(16, low=1, high=2**24)
    skew: float = option(0.5, low=0.0, high=4.0)
    inside: float = share(0.9)
    etypes: int = option(1, low=1, high=2**16)
    own: float = share(0.5)
    exponent: float = option(0.5, low=0.0, high=4.0)
    seed: int = option(0, low=0)
    shuffled: bool = option(False)
    undirected: bool = option(False)
    inverse: bool = option(False)

    def size(self) -> tuple[int, int]:
        """Nodes and edges, exactly."""
        return self.nodes, self.edges << (self.undirected + self.inverse)

    def make(self) -> HeteroGraph:
        """The graph."""
        rng = draw.generator("community", self.seed)
        sizes = draw.zipf_sizes(self.nodes, min(self.communities, self.nodes), self.skew)
        first = np.cumsum(sizes) - sizes
        # A group has edges in proportion to its nodes.
        group = np.searchsorted(np.cumsum(sizes), self.nodes * rng.random(self.edges), "right")
        group = np.minimum(group, len(sizes) - 1)
        src = first[group] + self._members(sizes[group], rng)
        stays = rng.random(self.edges) < self.inside
        elsewhere = np.minimum(rng.random(self.edges) * self.nodes, self.nodes - 1)
        dst = np.where(stays, first[group] + self._members(sizes[group], rng), elsewhere)
        drawn = rng.integers(0, self.etypes, self.edges)
        etype = np.where(rng.random(self.edges) < self.own, group % self.etypes, drawn)
        dst = dst.astype(np.int64)
        if self.shuffled:
            ids = rng.permutation(self.nodes)
            src, dst = ids[src], ids[dst]
        return assembled(
            src,
            dst,
            etype,
            np.array([self.nodes]),
            untyped(self.etypes),
            undirected=self.undirected,
            inverse=self.inverse,
        )

    def _members(self, sizes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """For each edge a member of a group of this size."""
        return draw.power_ranks(rng.random(len(sizes)), sizes, self.exponent)
