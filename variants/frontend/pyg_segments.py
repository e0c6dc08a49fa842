"""PyG's `RGCNConv` with pyg-lib: one product for all relations, and a mean over all of their edges.

Without it, and on graphs for which PyG takes products apart to be faster, it adds up the mean of
each relation. PyG decides in every call, by the sizes of the graph.
"""

from __future__ import annotations

import sys
from typing import Any

import torch

from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.state import GraphSlot

_ARE_SEGMENTED = GraphSlot[tuple[int, int, int], bool]()


def is_installed() -> bool:
    """Whether PyG has found pyg-lib, which it looks for once."""
    return bool(getattr(sys.modules["torch_geometric"].typing, "WITH_SEGMM", False))


def averages_all_edges(module: Any, graph: HeteroGraph) -> bool:
    """Whether PyG would take the mean over the edges of all relations on a graph.

    Args:
        module: An `RGCNConv` with ``aggr="mean"`` and without bases or blocks; pyg-lib is
            installed.
        graph: What it is called on.
    """
    backend = sys.modules["torch_geometric"].backend
    if backend.use_segment_matmul is not None:
        return bool(backend.use_segment_matmul)

    def most() -> int:
        return int(torch.bincount(graph.etype, minlength=1).max())

    _, d_in, d_out = module.weight.shape
    return graph.state.of(
        _ARE_SEGMENTED,
        (module.num_relations, d_in, d_out),
        lambda: bool(
            backend.use_segment_matmul_heuristic(
                num_segments=module.num_relations,
                max_segment_size=most(),
                in_channels=d_in,
                out_channels=d_out,
            )
        ),
    )
