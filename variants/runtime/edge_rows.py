"""Rows of edges that go from plan to plan in the order of an index."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from hetune.variants.runtime.plan_inputs import reorder


@dataclass(frozen=True, slots=True)
class OrderedRows:
    """Rows of edges as launches left them.

    Attributes:
        rows: [E, *row shape].
        places: Where they have each edge of the graph, int32 [E].
    """

    rows: Tensor
    places: Tensor


@dataclass(frozen=True, slots=True)
class EdgeOrders:
    """In which order a run gets and gives rows of edges.

    Attributes:
        places: Of features that come as `OrderedRows`, by name; others are in the graph's order.
        kept: Whether results stay in the index's order.
    """

    places: Mapping[str, Tensor] = field(default_factory=dict)
    kept: bool = False


IN_GRAPH_ORDER = EdgeOrders()


def in_graph_order(rows: Tensor | OrderedRows) -> Tensor:
    """Rows of edges in the graph's order; others as they are."""
    if isinstance(rows, Tensor):
        return rows
    found = torch.empty_like(rows.rows)
    reorder(rows.rows, rows.places, found)
    return found
