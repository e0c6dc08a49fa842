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

from hetune.variants.frontend.tracing.expressions import Expression, called, fixed
from hetune.variants.program.builder import Builder
from hetune.variants.program.columns import by_columns
from hetune.variants.program.nodes import (
    Concat,
    Dot,
    Group,
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
)

WIDEST = 256
"""Columns that products pick some of: of more, copies take less time."""


def with_selected_columns(
    program: Program, weights: Mapping[str, Expression]
) -> tuple[Program, Mapping[str, Expression]]:
    """The program without rows side by side, and what the weights are that it has more of.

    Where it has none anyway, returns such rows, or they are wide, the program itself.

    Args:
        program: The program.
        weights: What its weights are.
    """
    flat = by_columns(program)
    left = {
        let.name
        for let in flat.lets
        if isinstance(let.op, Slice | Concat) and not let.type.space.is_weight
    }
    widths = [
        flat.types[name].shape[-1]
        for let in flat.lets
        if let.name in left
        for name in (let.name, *operands(let.op))
    ]
    if not left or left & {*flat.results} or max(widths) > WIDEST:
        return program, {}
    columns = _Columns(flat.params, flat.groups, weights)
    found = columns.rebuilt(flat, columns.rewritten)
    if found.results != program.results:  # others know them by these names
        return program, {}
    read = {name for let in found.lets for name in operands(let.op)}
    params = tuple(param for param in columns.params if param.name in read)
    return replace(found, params=params), columns.weights


def picks_columns(program: Program, weights: Mapping[str, Expression]) -> bool:
    """Whether a program multiplies rows by numbers that are always the same, zeros among them."""
    products = (let.op for let in program.lets if isinstance(let.op, Linear | Dot))
    read = {name for op in products for name in operands(op)}
    return any(_picks(weights[name]) for name in read if name in weights)


def _picks(weight: Expression) -> bool:
    first = weight.args[0] if weight.func is torch.matmul else weight
    return isinstance(first, Expression) and first.is_fixed


class _Columns(Builder):
    """The values so far.

    Attributes:
        weights: What the new ones are.
    """

    def __init__(
        self,
        params: Iterable[Param],
        groups: Iterable[Group],
        given: Mapping[str, Expression],
    ) -> None:
        super().__init__(params, groups)
        self._given, self.weights = given, dict[str, Expression]()

    def rewritten(self, op: Op, hint: str) -> str:
        """The name of the value of an operator, whose operands are rewritten already."""
        match op:
            case Slice(x) if self.types[x].space in _LINEAR:
                return self._columns_of(x, op, hint)
            case Linear(x, w) if w in self._given and (product := self._widened(x, w)):
                return self.emit(product, hint)
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

    def _widened(self, x: str, w: str) -> Linear | None:
        """A product of picked columns as one of all columns, where that takes less time."""
        pick, kind = self.ops.get(x), self.types[w]
        if not isinstance(pick, Linear) or len(kind.shape) != 2:
            return None
        if pick.w not in self.weights or self.weights[pick.w].fixed is None:
            return None
        (columns, picked), outer = self.types[pick.w].shape, kind.shape[1]
        if kind.space is not Space.SHARED or columns * outer > (columns + outer) * picked:
            return None
        whole = called(torch.matmul, (self.weights[pick.w], self._given[w]), {})
        return Linear(pick.x, self._weight(whole, (columns, outer)))

    def _columns_of(self, x: str, cut: Slice, hint: str) -> str:
        chosen = torch.eye(self.types[x].shape[-1], device="cpu")
        return self._product(x, chosen[:, cut.start : cut.stop], hint)

    def _product(self, x: str, matrix: Tensor, hint: str) -> str:
        """Rows, or the rows of each head, times a matrix."""
        heads = self.types[x].shape[:-1]
        weight = fixed(matrix.expand(*heads, *matrix.shape).contiguous())
        return self.emit(Linear(x, self._weight(weight, (*heads, *matrix.shape))), hint)

    def _weight(self, weight: Expression, shape: tuple[int, ...]) -> str:
        known = (name for name, other in self.weights.items() if other.key == weight.key)
        if (found := next(known, None)) is not None:
            return found
        number = len(self.weights)
        while (name := f"columns_{number}") in self.types:
            number += 1
        self.types[name], self.weights[name] = Type(Space.SHARED, shape), weight
        self.params = (*self.params, Param(name, self.types[name], "weight"))
        return name


_LINEAR = (Space.NODE, Space.EDGE, Space.SRC_PAIR, Space.DST_PAIR)
