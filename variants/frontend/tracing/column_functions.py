"""Functions that rearrange or add up the columns of rows, as products with matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from hetune.variants.frontend.tracing.alignment import Shape, rows_of
from hetune.variants.frontend.tracing.interpreter import Interpreter, handles
from hetune.variants.frontend.tracing.not_traceable import NotTraceable
from hetune.variants.frontend.tracing.symbols import RowValue


def by_columns(x: Tensor, dim: int, function: Callable[[Tensor], Tensor]) -> Tensor:
    """What a linear function of each row's last axis gives.

    Args:
        x: The rows.
        dim: The axis, which is to be the last.
        function: Takes rows of columns.
    """
    if dim % x.dim() != x.dim() - 1 or rows_of(x).axis == x.dim() - 1:
        raise NotTraceable("an axis that is not the last of each row is rearranged: move it there")
    return torch.matmul(x, function(torch.eye(x.shape[-1], dtype=x.dtype)))


@handles("flip")
def _flip(at: Interpreter, shape: Shape, x: Tensor, *dims: Any) -> RowValue:
    (dim,) = dims[0] if isinstance(dims[0], list | tuple) else dims
    return rows_of(by_columns(x, dim, lambda rows: rows.flip(-1)))


@handles("roll")
def _roll(at: Interpreter, shape: Shape, x: Tensor, shifts: Any, dims: Any) -> RowValue:
    (shift,) = shifts if isinstance(shifts, list | tuple) else (shifts,)
    (dim,) = dims if isinstance(dims, list | tuple) else (dims,)
    return rows_of(by_columns(x, dim, lambda rows: rows.roll(shift, -1)))


@handles("cumsum")
def _cumsum(at: Interpreter, shape: Shape, x: Tensor, dim: int) -> RowValue:
    return rows_of(by_columns(x, dim, lambda rows: rows.cumsum(-1)))
