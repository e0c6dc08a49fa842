"""Rows of large tables of which a call reads few: embeddings of nodes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import embedding

from hetune.variants.graph.float_memory import zeros_like_rows
from hetune.variants.graph.row_sums import add_rows

_INT32 = 1 << 31


def table_rows(table: Tensor, places: Tensor) -> Tensor:
    """A table's rows at some places, [n, width].

    Its gradient is zero but there. Torch's takes several times as long on CPUs, most of it for page
    faults.

    Args:
        table: [rows, width].
        places: Int64 [n], each below rows.
    """
    on_cpu = table.device.type == "cpu" and table.dtype is torch.float32 and len(table) < _INT32
    if on_cpu and table.requires_grad and torch.is_grad_enabled():
        found: Tensor = _Rows.apply(table, places)  # type: ignore[no-untyped-call]
        return found
    return embedding(places, table)


class _Rows(torch.autograd.Function):
    """Rows at places, each of which may come several times."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, places: Tensor) -> Tensor:
        """The rows."""
        ctx.save_for_backward(places)
        ctx.rows = len(table)
        return table.index_select(0, places)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        """The table's gradient."""
        (places,) = ctx.saved_tensors
        total = zeros_like_rows(ctx.rows, grad)
        add_rows(total, places.int(), grad, 1.0)
        return total, None
