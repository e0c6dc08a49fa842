"""What a graph's page shows of its degrees and relations."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch

from hetune.service.core.graphs.graphs import GraphStatistics, statistics
from hetune.service.pages.figures import count
from hetune.variants.graph.hetero import HeteroGraph


@dataclass(frozen=True, slots=True)
class Bin:
    """Nodes with in-degrees from `first` to `last`."""

    first: int
    last: int
    nodes: int

    @property
    def text(self) -> str:
        """The degrees, for a reader."""
        return count(self.first) if self.first == self.last else f"{self.first:,}–{self.last:,}"


@dataclass(frozen=True, slots=True)
class GraphView:
    """A graph, as its page shows it.

    Attributes:
        statistics: Counts.
        degrees: In-degrees by powers of two; the first bin is 0 alone.
        relations: Names and edges, the largest first.
        node_types: Names and nodes, the largest first.
    """

    statistics: GraphStatistics
    degrees: tuple[Bin, ...]
    relations: tuple[tuple[str, int], ...]
    node_types: tuple[tuple[str, int], ...]


def view_of(graph: HeteroGraph) -> GraphView:
    """What there is to show of a graph."""
    known = statistics(graph)
    return GraphView(
        known,
        _bins(graph),
        _largest_first((etype.name, etype.edges) for etype in known.etypes),
        _largest_first((ntype.name, ntype.nodes) for ntype in known.ntypes),
    )


def _largest_first(entries: Iterable[tuple[str, int]]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(entries, key=lambda entry: -entry[1]))


def _bins(graph: HeteroGraph) -> tuple[Bin, ...]:
    degrees = torch.bincount(graph.dst, minlength=graph.num_nodes)
    counts = torch.bincount(degrees).tolist()
    found, first = [Bin(0, 0, counts[0] if counts else 0)], 1
    while first < len(counts):
        found.append(Bin(first, 2 * first - 1, sum(counts[first : 2 * first])))
        first *= 2
    return tuple(found)
