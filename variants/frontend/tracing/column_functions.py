"""Functions that rearrange or add up the columns of rows, as products with matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from hetune.variants.frontend.tracing.alignment import Shape, rows_of
from hetune.variants.frontend.tracing.interpreter import Interpreter, handles
from hetune.variants.frontend.tracing.not_traceable import NotTraceable
from hetune.variants.frontend.tracing.selected_columns import WIDEST
from hetune.variants.frontend.tracing.symbols import RowValue


def linear_in_columns(x: Tensor, dim: int, function: Callable[[Tensor], Tensor]) -> Tensor:
    """What a linear function of each row's last axis gives.

    Args:
        x: The rows.
        dim: The axis, which is to be the last.
        function: Takes rows of columns.
    """
    if dim % x.dim() != x.dim() - 1 or rows_of(x).axis == x.dim() - 1:
        raise NotTraceable("an axis that is not the last of each row is rearranged: move it there")
    if x.shape[-1] > WIDEST:
        raise NotTraceable(f"{x.shape[-1]} columns are rearranged: {WIDEST} at most compile")
    return torch.matmul(x, function(torch.eye(x.shape[-1], dtype=x.dtype)))


@handles("flip")
def _flip(at: Interpreter, shape: Shape, x: Tensor, *args: Any, dims: Any = None) -> RowValue:
    dim = _one(args if dims is None else dims)
    return rows_of(linear_in_columns(x, dim, lambda rows: rows.flip(-1)))


@handles("roll")
def _roll(at: Interpreter, shape: Shape, x: Tensor, shifts: Any, dims: Any) -> RowValue:
    shift = _one(shifts)
    return rows_of(linear_in_columns(x, _one(dims), lambda rows: rows.roll(shift, -1)))


def _one(given: Any) -> int:
    """A number, or the only one in a tuple."""
    while isinstance(given, list | tuple):
        if len(given) != 1:
            raise NotTraceable("several axes are rearranged at once: one after the other compiles")
        (given,) = given
    return int(given)


@handles("cumsum")
def _cumsum(at: Interpreter, shape: Shape, x: Tensor, dim: int) -> RowValue:
    return rows_of(linear_in_columns(x, dim, lambda rows: rows.cumsum(-1)))
