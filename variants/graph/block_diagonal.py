"""Several graphs as one that is block-diagonal: no edge leads from one of them to another."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from hetune.variants.errors import GraphError
from hetune.variants.graph._arrays import check_count
from hetune.variants.graph.hetero import HeteroGraph

__all__ = ["BlockDiagonal", "block_diagonal"]


@dataclass(frozen=True, slots=True)
class BlockDiagonal:
    """Graphs as one, and where their nodes are in it.

    Attributes:
        graph: The one. Of each type it has the nodes of the first graph, then the second's, and so
            on; edges are in the order of the graphs, too.
        sizes: Nodes of each graph.
        order: By node of the one, its number where the graphs' nodes are counted through, int64
            [N]; None where that is the same.
        places: The other way round.
    """

    graph: HeteroGraph
    sizes: tuple[int, ...]
    order: Tensor | None
    places: Tensor | None

    def stacked(self, rows: Sequence[Tensor]) -> Tensor:
        """Rows of the one graph's nodes, of each graph's rows."""
        together = torch.cat(tuple(rows))
        return together if self.order is None else together.index_select(0, self.order)

    def split(self, rows: Tensor) -> tuple[Tensor, ...]:
        """Each graph's rows, contiguous, of those of the one graph's nodes."""
        ordered = rows if self.places is None else rows.index_select(0, self.places)
        return torch.split(ordered, list(self.sizes))


def block_diagonal(graphs: Sequence[HeteroGraph]) -> BlockDiagonal:
    """Several graphs as one. The same one may be given repeatedly.

    Every node keeps its edges in their order, and nodes of one graph are in the same order by type.

    Args:
        graphs: At least one, on one device; their types have the same names in the same order.

    Raises:
        GraphError: Their types differ, or they have too many nodes or edges together.
    """
    first = graphs[0]
    for graph in graphs:
        if (graph.ntype_names, graph.etype_names) != (first.ntype_names, first.etype_names):
            raise GraphError(
                "the types of nodes or edges have other names than those of the first graph: "
                "join graphs of the same types"
            )
    sizes = tuple(graph.num_nodes for graph in graphs)
    check_count("num_nodes", sum(sizes))
    check_count("num_edges", sum(graph.num_edges for graph in graphs))
    starts = list(itertools.accumulate(sizes[:-1], initial=0))
    shifted = list(zip(graphs, starts, strict=True))
    src = torch.cat([graph.src + start for graph, start in shifted])
    dst = torch.cat([graph.dst + start for graph, start in shifted])
    ntype = torch.cat([graph.ntype for graph in graphs])
    order = places = None
    if bool((ntype.diff() < 0).any()):
        order = torch.argsort(ntype, stable=True)
        places = torch.empty_like(order)
        places[order] = torch.arange(len(order), device=order.device)
        ntype, src, dst = ntype[order], places[src], places[dst]
    return BlockDiagonal(
        first.with_columns(
            src,
            dst,
            torch.cat([graph.etype for graph in graphs]),
            ntype,
            canonical_etypes=_triples(graphs),
        ),
        sizes,
        order,
        places,
    )


def _triples(graphs: Sequence[HeteroGraph]) -> list[tuple[str, str, str]] | None:
    """What all graphs call their relations by; None if they do not agree, or it is not known."""
    if not all(graph.is_canonical for graph in graphs):
        return None
    found = {graph.canonical_etypes for graph in graphs}
    return list(found.pop()) if len(found) == 1 else None
