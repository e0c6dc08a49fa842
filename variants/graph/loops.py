"""Graphs of one edge type with other self loops than they were given with."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import torch
from torch import Tensor

from hetune.variants.errors import InputError
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.state import GraphSlot

__all__ = ["LOOPS", "Loops", "edges_with_loops", "with_loops"]

Loops: TypeAlias = Literal["given", "removed", "added", "replaced"]
"""What becomes of self loops: they stay, go, get one more at each node, or both of the latter."""
LOOPS: tuple[Loops, ...] = get_args(Loops)
_SLOT = GraphSlot[Loops, HeteroGraph]()


def with_loops(graph: HeteroGraph, loops: Loops) -> HeteroGraph:
    """A graph with its loops changed, which is kept with it; the graph itself if they stay.

    Raises:
        InputError: It has several edge types: none is that of loops.
    """
    if loops == "given":
        return graph
    if graph.num_etypes != 1:
        raise InputError(
            f"the graph has {graph.num_etypes} edge types, but loops are {loops}: take a graph of "
            "one edge type"
        )

    def made() -> HeteroGraph:
        src, dst = edges_with_loops(graph.src, graph.dst, graph.num_nodes, loops)
        return graph.with_columns(src, dst, torch.zeros_like(src), canonical_etypes=None)

    return graph.state.of(_SLOT, loops, made)


def edges_with_loops(
    src: Tensor, dst: Tensor, num_nodes: int, loops: Loops
) -> tuple[Tensor, Tensor]:
    """Both ends of the edges; loops that come are the last ones, in the order of nodes.

    Args:
        src: Source of each edge, [E].
        dst: Destination of each edge, [E].
        num_nodes: N.
        loops: What becomes of loops.
    """
    if loops in ("removed", "replaced"):
        stays = src != dst
        src, dst = src[stays], dst[stays]
    if loops in ("added", "replaced"):
        nodes = torch.arange(num_nodes, dtype=src.dtype, device=src.device)
        src, dst = torch.cat([src, nodes]), torch.cat([dst, nodes])
    return src, dst
