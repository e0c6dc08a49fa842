"""Operators whose rows are made of their operands' rows alone: what torch runs for all rows.

An operand has as many rows as the others, or one for all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from hetune.variants.program.apply import apply_map, fold
from hetune.variants.program.nodes import Concat, Einsum, Fold, Map, Op, Reshape, Slice, Type

RowFunction = Callable[..., Tensor]
"""Of the operands' rows, ``[rows, *row shape]`` each, in order."""


def row_function(op: Op, types: Mapping[str, Type]) -> RowFunction | None:
    """What computes an operator; None where it needs to know which row belongs to which.

    Args:
        op: The operator.
        types: Of its operands, by name.
    """
    match op:
        case Map(fn, args, const):
            depths = [len(types[name].shape) for name in args]
            axes = [[1] * (max(depths) - depth) for depth in depths]
            if not any(axes):
                return lambda *rows: apply_map(fn, rows, const)
            return lambda *rows: apply_map(
                fn, [r.reshape(*r.shape, *more) for r, more in zip(rows, axes, strict=True)], const
            )
        case Einsum(spec):
            return _product(spec)
        case Reshape(_, shape):
            return lambda rows: rows.reshape(rows.shape[0], *shape)
        case Fold(_, axis, fn):
            return lambda rows: fold(fn, rows, axis + 1)
        case Concat():
            return lambda *rows: torch.cat(_as_many(rows), -1)
        case Slice(_, start, stop):
            return lambda rows: rows[..., start:stop]
    return None


def _as_many(rows: tuple[Tensor, ...]) -> list[Tensor]:
    counts = [each.shape[0] for each in rows]
    count = next((count for count in counts if count != 1), 1)
    return [
        each if own == count else each.expand(count, *each.shape[1:])
        for each, own in zip(rows, counts, strict=True)
    ]


def _product(spec: str) -> RowFunction:
    """A product of rows; without what `torch.einsum` takes to find out how, where that is known."""
    inputs, result = spec.split("->")
    terms = inputs.split(",")
    if len(terms) == 1 and sorted(terms[0]) == sorted(result):
        order = 0, *(1 + terms[0].index(axis) for axis in result)
        return lambda rows: rows.permute(order)
    if spec == "k,d->kd":
        return lambda x, y: x.unsqueeze(2) * y.unsqueeze(1)
    if spec == "kd,d->k":
        return lambda x, y: torch.bmm(*_as_many((x, y.unsqueeze(2)))).squeeze(2)
    if spec == "k,kd->d":
        return lambda x, y: torch.bmm(*_as_many((x.unsqueeze(1), y))).squeeze(1)
    row = next(letter for letter in "ZYXWVUTSRQPONMLKJIHGFEDCBAzyxw" if letter not in spec)
    equation = f"{','.join(row + axes for axes in terms)}->{row}{result}"
    return lambda *rows: torch.einsum(equation, *_as_many(rows))
