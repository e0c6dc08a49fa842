"""Graphs that break careless code; all are canonical, so that every layer runs on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MappingProxyType

import torch
from torch import Tensor

from hetune.variants.graph.hetero import HeteroGraph

Relation = tuple[int, int, int]
"""Source node type, destination node type, number of edges."""


def typed_graph(
    num_nodes: Sequence[int],
    relations: Sequence[Relation],
    seed: int = 0,
    ends: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]] | None = None,
) -> HeteroGraph:
    """A graph with edges drawn evenly, in no order.

    Args:
        num_nodes: Nodes of each type.
        relations: The edge types.
        seed: Of the draw.
        ends: Changes sources and destinations, given as ids within their node types.
    """
    draw = torch.Generator().manual_seed(seed)
    offsets = [sum(num_nodes[:t]) for t in range(len(num_nodes))]
    parts: list[Tensor] = [torch.empty((3, 0), dtype=torch.int64)]
    for r, (source, target, edges) in enumerate(relations):
        src = torch.randint(max(num_nodes[source], 1), (edges,), generator=draw)
        dst = torch.randint(max(num_nodes[target], 1), (edges,), generator=draw)
        if ends is not None:
            src, dst = ends(src, dst)
        etype = torch.full((edges,), r)
        parts.append(torch.stack((src + offsets[source], dst + offsets[target], etype)))
    edges_ = torch.cat(parts, 1)
    edges_ = edges_[:, torch.randperm(edges_.shape[1], generator=draw)]
    ntype = torch.repeat_interleave(torch.arange(len(num_nodes)), torch.tensor([*num_nodes]))
    names = [f"t{t}" for t in range(len(num_nodes))]
    return HeteroGraph(
        edges_[0],
        edges_[1],
        edges_[2],
        ntype,
        ntype_names=names,
        canonical_etypes=[(names[s], f"r{r}", names[d]) for r, (s, d, _) in enumerate(relations)],
        num_etypes=len(relations),
    )


def _to_first(src: Tensor, dst: Tensor) -> tuple[Tensor, Tensor]:
    """A third of the edges leads to one node."""
    return src, torch.where(torch.arange(len(dst)) % 3 == 0, 0, dst)


def _mostly_to_first(src: Tensor, dst: Tensor) -> tuple[Tensor, Tensor]:
    return src, torch.where(torch.arange(len(dst)) % 7 < 6, 0, dst)


def _from_first(src: Tensor, dst: Tensor) -> tuple[Tensor, Tensor]:
    return torch.where(torch.arange(len(src)) % 3 == 0, 0, src), dst


def _nearly_all_to_first(src: Tensor, dst: Tensor) -> tuple[Tensor, Tensor]:
    return src, torch.where(torch.arange(len(dst)) % 50 != 0, 0, dst)


def long_sums(edges: int = 300_000) -> HeteroGraph:
    """Nearly all of so many edges, and of a few others, are of one type and lead to one node."""
    relations = [(0, 0, edges), (1, 0, edges // 50), (0, 1, edges // 100)]
    return typed_graph((2000, 500), relations, ends=_nearly_all_to_first)


def _loops(src: Tensor, dst: Tensor) -> tuple[Tensor, Tensor]:
    return src, src


AWKWARD: MappingProxyType[str, Callable[[], HeteroGraph]] = MappingProxyType(
    {
        "no nodes": lambda: typed_graph((0, 0), [(0, 1, 0), (1, 0, 0)]),
        "no edges": lambda: typed_graph((4, 3), [(0, 1, 0), (1, 1, 0), (1, 0, 0)]),
        "one node": lambda: typed_graph((1,), [(0, 0, 1)]),
        "one relation": lambda: typed_graph((30,), [(0, 0, 90)]),
        "node type without nodes": lambda: typed_graph(
            (6, 0, 5), [(0, 2, 12), (1, 0, 0), (2, 1, 0), (2, 0, 9)]
        ),
        "relations without edges": lambda: typed_graph(
            (12, 8), [(0, 1, 0), (0, 0, 25), (1, 0, 0), (1, 1, 18), (0, 1, 0)]
        ),
        "isolated nodes": lambda: typed_graph((300, 100), [(0, 0, 6), (0, 1, 5), (1, 0, 4)]),
        "duplicate edges": lambda: typed_graph((2, 1), [(0, 0, 20), (0, 1, 15), (1, 0, 10)]),
        "self loops": lambda: typed_graph((9, 4), [(0, 0, 14), (1, 1, 6)], ends=_loops),
        "hub": lambda: typed_graph(
            (260, 60), [(0, 0, 300), (1, 0, 200), (0, 1, 100)], ends=_to_first
        ),
        "hub of thousands of edges": lambda: typed_graph(
            (300, 40), [(0, 0, 5000), (1, 0, 2000)], ends=_mostly_to_first
        ),
        "source hub": lambda: typed_graph(
            (260, 60), [(0, 0, 300), (1, 0, 200), (0, 1, 100)], ends=_from_first
        ),
        "several blocks": lambda: typed_graph(
            (500, 300, 100), [(0, 1, 350), (1, 0, 250), (0, 0, 150), (2, 1, 80), (1, 2, 70)]
        ),
        "thousands of relations": lambda: typed_graph(
            (40, 25), [(r % 2, r // 2 % 2, 1 + (r % 7 == 0)) for r in range(2000)]
        ),
    }
)
"""Builders by name."""
