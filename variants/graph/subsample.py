"""A part of a graph, drawn by chance."""

import math

import numpy as np
import torch

from hetune.variants.errors import GraphError
from hetune.variants.graph.hetero import HeteroGraph


def subsample(
    graph: HeteroGraph, *, nodes: float = 1.0, edges: float = 1.0, seed: int = 0
) -> HeteroGraph:
    """Draw a share of a graph's nodes, with the edges between them, and a share of those edges.

    Nodes and edges keep their order and types; all types stay, also those that lose all they had.

    Args:
        graph: The graph; it stays as it is.
        nodes: Share of the nodes to keep, from 0 to 1.
        edges: Share of the edges between kept nodes to keep, from 0 to 1.
        seed: Same graph, shares and seed, same part.

    Returns:
        The part, on the CPU.

    Raises:
        GraphError: A share is not from 0 to 1, or the seed is negative.
    """
    for name, part in (("nodes", nodes), ("edges", edges)):
        if not (math.isfinite(part) and 0 <= part <= 1):
            raise GraphError(f"{name} is {part}: give the share to keep, from 0 to 1")
    if seed < 0:
        raise GraphError(f"seed is {seed}: give a number of 0 or more")
    rng = np.random.Generator(np.random.PCG64(seed))
    graph = graph.to("cpu")
    kept = _part(graph.num_nodes, nodes, rng)
    number = np.full(graph.num_nodes, -1, dtype=np.int32)
    number[kept] = np.arange(len(kept), dtype=np.int32)
    src, dst = number[graph.src.numpy()], number[graph.dst.numpy()]
    between = np.flatnonzero((src >= 0) & (dst >= 0))
    chosen = between[_part(len(between), edges, rng)]
    return graph.with_columns(
        torch.from_numpy(src[chosen]),
        torch.from_numpy(dst[chosen]),
        graph.etype[torch.from_numpy(chosen)],
        graph.ntype[torch.from_numpy(kept)],
        canonical_etypes=graph.canonical_etypes if graph.is_canonical else None,
        node_names=_names(graph, kept),
    )


def _names(graph: HeteroGraph, kept: np.ndarray) -> dict[str, tuple[str, ...]]:
    first = dict(zip(graph.ntype_names, graph.node_offsets, strict=False))
    found = {}
    for ntype, names in (graph.node_names or {}).items():
        ids = kept - first[ntype]
        found[ntype] = tuple(names[i] for i in ids[(ids >= 0) & (ids < len(names))])
    return found


def _part(count: int, share: float, rng: np.random.Generator) -> np.ndarray:
    """Ascending positions of so large a share, rounded, int64."""
    return np.sort(rng.permutation(count)[: round(share * count)])
