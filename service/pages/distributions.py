"""What a graph's page shows of its degrees and relations."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch

from hetune.service.core.graphs.graphs import GraphStatistics, statistics
from hetune.service.pages.figures import count
from hetune.service.pages.plots import Plot, histogram, ranking
from hetune.variants.graph.hetero import HeteroGraph

_MOST_DOTS = 2000


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
        degree_plot: None where no node has an edge.
        relation_plot: Likewise.
    """

    statistics: GraphStatistics
    degrees: tuple[Bin, ...]
    relations: tuple[tuple[str, int], ...]
    node_types: tuple[tuple[str, int], ...]
    degree_plot: Plot | None
    relation_plot: Plot | None


def view_of(graph: HeteroGraph) -> GraphView:
    """What there is to show of a graph."""
    known = statistics(graph)
    degrees = _bins(graph)
    relations = _largest_first((etype.name, etype.edges) for etype in known.etypes)
    sizes = [edges for _, edges in relations if edges]
    return GraphView(
        known,
        degrees,
        relations,
        _largest_first((ntype.name, ntype.nodes) for ntype in known.ntypes),
        _degree_plot(known, degrees),
        _relation_plot(sizes),
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


def _degree_plot(known: GraphStatistics, degrees: tuple[Bin, ...]) -> Plot | None:
    bars = [(each.first, each.nodes) for each in degrees if each.first and each.nodes]
    if not bars:
        return None
    widest = max(degrees[1:], key=lambda each: each.nodes)
    words = (
        f"{count(widest.nodes)} of {count(known.num_nodes)} nodes have an in-degree of "
        f"{widest.text}; the largest is {count(known.largest_degree)}, and "
        f"{count(degrees[0].nodes)} nodes have none."
    )
    return histogram("degrees", "In-degrees", words, ("incoming edges", "nodes"), bars)


def _relation_plot(sizes: list[int]) -> Plot | None:
    if not sizes:
        return None
    words = (
        f"The largest of {count(len(sizes))} relations with edges has {count(sizes[0])} of "
        f"{count(sum(sizes))}, the smallest {count(sizes[-1])}."
    )
    return ranking(
        "relations",
        "Sizes of relations",
        words,
        ("rank of the relation", "edges"),
        sizes[:_MOST_DOTS],
    )
