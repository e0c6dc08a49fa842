"""PyG's `HGTConv` pairs weights with types by their positions, wherever it multiplies all at once.

Its weights per edge type expect edge types in ascending order; of others it takes another type's.
So it does with node types where pyg-lib multiplies those of all types together.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sized
from typing import Any

from hetune.variants.frontend.adapter import ByType


def order_refusal(module: Any, x_dict: ByType, edge_index_dict: ByType) -> str | None:
    """Why an `HGTConv` computes something else than by name, or None.

    Args:
        module: The layer.
        x_dict: Features by node type.
        edge_index_dict: Edges by edge type.
    """
    edge_types = [tuple(each) for each in module.edge_types]
    if not _is_ordered(edge_index_dict, edge_types):
        return (
            "edge_index_dict has its edge types in another order than the layer's metadata, and "
            "HGTConv takes another edge type's weights then: give them in the metadata's order"
        )
    if not _multiplies_at_once(x_dict):
        return None
    inputs = list(module.kqv_lin.lins)
    outputs = [name for name in inputs if name in x_dict and name in module.dst_node_types]
    if not (_is_ordered(x_dict, inputs) and _is_ordered(outputs, list(module.out_lin.lins))):
        return (
            "x_dict or in_channels has its node types in another order than the layer's metadata, "
            "and with pyg-lib HGTConv takes another node type's weights then: give them in the "
            "metadata's order"
        )
    return None


def _is_ordered(found: Iterable[object], order: list[Any]) -> bool:
    """Whether what is found comes in an order, in which some may be missing."""
    names = list(found)
    known = set(names)
    return names == [name for name in order if name in known] or not known <= set(order)


def _multiplies_at_once(x_dict: Sized) -> bool:
    geometric = sys.modules["torch_geometric"]
    if not getattr(geometric.typing, "WITH_GMM", False):
        return False
    chosen = geometric.backend.use_segment_matmul
    return len(x_dict) >= 10 if chosen is None else bool(chosen)
