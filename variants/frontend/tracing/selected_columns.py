"""Columns that rows have to be cut into, or put together of, as products with weights of 0 and 1.

Kernels know no rows side by side. Where these cannot be taken apart, as some of a feature's
columns cannot, a product picks them: it is as exact, and weights that follow are multiplied first.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Mapping
from dataclasses import replace

import torch
from torch import Tensor

from hetune.variants.frontend.tracing.expressions import Expression, fixed
from hetune.variants.program.builder import Builder
from hetune.variants.program.columns import by_columns
from hetune.variants.program.nodes import (
    Concat,
    Group,
    Let,
    Linear,
    Map,
    Op,
    Param,
    Program,
    Slice,
    Space,
    Take,
    Type,
    operands,
    with_operands,
)

WIDEST = 512
"""Columns that products pick some of: of more, copies take less time."""


def with_selected_columns(program: Program) -> tuple[Program, Mapping[str, Expression]]:
    """The program without rows side by side, and what the weights are that it has more of.

    Where it has none anyway, returns such rows, or they are wide, the program itself.
    """
    flat = by_columns(program)
    left = {
        let.name
        for let in flat.lets
        if isinstance(let.op, Slice | Concat) and not let.type.space.is_weight
    }
    widths = [flat.types[x].shape[-1] for let in flat.lets if let.name in left for x in _of(let)]
    if not left or left & {*flat.results} or max(widths) > WIDEST:
        return program, {}
    columns = _Columns(flat.params, flat.groups)
    renamed = {param.name: param.name for param in flat.params}
    for let in flat.lets:
        op = with_operands(let.op, tuple(renamed[name] for name in operands(let.op)))
        renamed[let.name] = columns.rewritten(op, let.name)
    found = columns.finish(flat, tuple(renamed[name] for name in flat.results))
    if found.results != program.results:  # others know them by these names
        return program, {}
    read = {name for let in found.lets for name in operands(let.op)}
    params = tuple(param for param in columns.params if param.name in read)
    return replace(found, params=params), columns.weights


def _of(let: Let) -> tuple[str, ...]:
    return let.name, *operands(let.op)


def picks_columns(program: Program, weights: Mapping[str, Expression]) -> bool:
    """Whether a program multiplies rows by numbers that are always the same, zeros among them."""
    read = (let.op.w for let in program.lets if isinstance(let.op, Linear))
    return any(name in weights and weights[name].hint == "fixed" for name in read)


class _Columns(Builder):
    """The values so far.

    Attributes:
        weights: What the new ones are.
    """

    def __init__(self, params: Iterable[Param], groups: Iterable[Group]) -> None:
        super().__init__(params, groups)
        self.weights: dict[str, Expression] = {}

    def rewritten(self, op: Op, hint: str) -> str:
        """The name of the value of an operator, whose operands are rewritten already."""
        match op:
            case Slice(x) if self.types[x].space in _LINEAR:
                return self._columns_of(x, op, hint)
            case Take(x=x) if isinstance(cut := self.ops.get(x), Slice):
                if self.types[x].space is Space.SOURCE:
                    taken = self.emit(replace(op, x=cut.x), hint)
                    return self._columns_of(taken, cut, f"{hint}_cut")
            case Concat(parts) if all(self.types[part].space in _LINEAR for part in parts):
                widths = [self.types[part].shape[-1] for part in parts]
                whole = torch.split(torch.eye(sum(widths), device="cpu"), widths)
                products = map(self._product, parts, whole, itertools.repeat(hint))
                return functools.reduce(lambda x, y: self.emit(Map("add", (x, y)), hint), products)
        return self.emit(op, hint)

    def _columns_of(self, x: str, cut: Slice, hint: str) -> str:
        chosen = torch.eye(self.types[x].shape[-1], device="cpu")
        return self._product(x, chosen[:, cut.start : cut.stop], hint)

    def _product(self, x: str, matrix: Tensor, hint: str) -> str:
        """Rows, or the rows of each head, times a matrix."""
        heads = self.types[x].shape[:-1]
        weight = fixed(matrix.expand(*heads, *matrix.shape).contiguous())
        known = (name for name, other in self.weights.items() if other.key == weight.key)
        if (name := next(known, None)) is None:
            name = self._new_weight((*heads, *matrix.shape))
            self.weights[name] = weight
        return self.emit(Linear(x, name), hint)

    def _new_weight(self, shape: tuple[int, ...]) -> str:
        number = len(self.weights)
        while (name := f"columns_{number}") in self.types:
            number += 1
        self.types[name] = Type(Space.SHARED, shape)
        self.params = (*self.params, Param(name, self.types[name], "weight"))
        return name


_LINEAR = (Space.NODE, Space.EDGE, Space.SRC_PAIR, Space.DST_PAIR)
