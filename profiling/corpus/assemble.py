"""From the arrays that a maker drew to a graph."""

from __future__ import annotations

import numpy as np
import torch

from hetune.variants.graph.hetero import HeteroGraph


def assembled(
    src: np.ndarray,
    dst: np.ndarray,
    etype: np.ndarray,
    counts: np.ndarray,
    ends: tuple[np.ndarray, np.ndarray],
    *,
    undirected: bool = False,
    inverse: bool = False,
) -> HeteroGraph:
    """A graph whose edge types join one pair of node types each.

    Args:
        src: Source of each edge, [E].
        dst: Destination of each edge, [E].
        etype: Relation of each edge, [E].
        counts: Nodes of each type, [T]; ids are by type.
        ends: Node type of each relation's sources and of its destinations, [R] both.
        undirected: Add to each edge its inverse, of the same relation.
        inverse: Add to each edge its inverse, of a relation of its own.
    """
    if undirected:
        src, dst = np.concatenate([src, dst]), np.concatenate([dst, src])
        etype = np.concatenate([etype, etype])
    ntypes = [f"n{t}" for t in range(len(counts))] if len(counts) > 1 else ["node"]
    names = [f"r{r}" for r in range(len(ends[0]))]
    graph = HeteroGraph(
        torch.from_numpy(src.astype(np.int32)),
        torch.from_numpy(dst.astype(np.int32)),
        torch.from_numpy(etype.astype(np.int32)),
        torch.from_numpy(np.repeat(np.arange(len(counts), dtype=np.int32), counts)),
        ntype_names=ntypes,
        etype_names=names,
        canonical_etypes=[
            (ntypes[s], name, ntypes[d]) for s, name, d in zip(ends[0], names, ends[1], strict=True)
        ],
        validate=False,
    )
    return graph.add_inverse() if inverse else graph


def untyped(etypes: int) -> tuple[np.ndarray, np.ndarray]:
    """The ends of relations where all nodes have one type."""
    none = np.zeros(etypes, dtype=np.int64)
    return none, none
