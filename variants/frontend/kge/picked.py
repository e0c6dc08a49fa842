"""Columns of entities' rows, picked where the rows are read.

Kernels read tables of entities as they lie, and whole rows of them: some columns, such as the real
parts of complex numbers, are sums of masked rows. (Products with 0 would read NaN and infinity.)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

import torch

from hetune.variants.frontend.tracing.expressions import Expression, fixed
from hetune.variants.program.builder import Builder
from hetune.variants.program.columns import by_columns
from hetune.variants.program.nodes import (
    Concat,
    Fold,
    Group,
    Map,
    Param,
    Program,
    Reshape,
    Slice,
    Space,
    Take,
    Type,
    operands,
    with_operands,
)

_MOST_PARTS = 8
"""Of equal width, that are picked one by one."""


def with_picked_columns(program: Program) -> tuple[Program, Mapping[str, Expression]]:
    """The program without columns cut out of rows of nodes, and the weights that it has more."""
    moved = by_columns(program)
    types = moved.types
    cuts = {
        let.name: let.op
        for let in moved.lets
        if isinstance(let.op, Slice) and not types[let.op.x].space.is_weight
    }
    if not cuts:
        return program, {}
    picks, now = _Picks(moved.params, moved.groups), dict[str, str]()
    for let in moved.lets:
        match let.op:
            case Take(x, Space.EDGE) if x in cuts:
                rows = with_operands(let.op, (now.get(cuts[x].x, cuts[x].x),))
                cut = cuts[x]
                now[let.name] = picks.picked(picks.emit(rows, "rows"), cut.start, cut.stop)
            case Slice(x, start, stop) if types[x].space is Space.EDGE:
                now[let.name] = picks.picked(now.get(x, x), start, stop)
            case Reshape(x, shape):
                now[let.name] = picks.reshaped(now.get(x, x), shape)
            case op:
                read = tuple(now.get(name, name) for name in operands(op))
                now[let.name] = picks.emit(with_operands(op, read), let.name)
    found = picks.finish(moved, tuple(now.get(name, name) for name in moved.results))
    return found, picks.weights


class _Picks(Builder):
    """The values so far, and weights that say which columns are picked."""

    def __init__(self, params: Iterable[Param], groups: Iterable[Group]) -> None:
        super().__init__(params, groups)
        self.weights: dict[str, Expression] = {}

    def picked(self, rows: str, start: int, stop: int) -> str:
        """Some columns of rows: parts of equal width, side by side."""
        *lead, width = self.types[rows].shape
        each = math.gcd(start, stop, width)
        if (stop - start) // each > _MOST_PARTS:
            return self.emit(Slice(rows, start, stop), f"{rows}_cut")
        parts = tuple(
            self._part(rows, (*lead,), width // each, each, i)
            for i in range(start // each, stop // each)
        )
        return parts[0] if len(parts) == 1 else self.emit(Concat(parts), f"{rows}_cut")

    def reshaped(self, name: str, shape: tuple[int, ...]) -> str:
        """A value under another row shape; a weight is read under it."""
        while isinstance(op := self.ops.get(name), Reshape):
            name = op.x
        if self.types[name].shape == shape:
            return name
        if isinstance(op, Take) and self.types[op.x].space.is_weight:
            return self.emit(replace(op, x=self.emit(Reshape(op.x, shape), f"{op.x}_rows")), name)
        return self.emit(Reshape(name, shape), "reshape")

    def _part(self, rows: str, lead: tuple[int, ...], count: int, each: int, i: int) -> str:
        """One of as many parts of equal width as there are."""
        shape = (*lead, count) if each == 1 else (*lead, count, each)
        parts = self.reshaped(rows, shape)
        kept = self.emit(Map("mask", (self._one_of((*lead, count), i), parts)), "parts")
        part = self.emit(Fold(kept, len(lead)), "part")
        return self.reshaped(part, (*lead, each))

    def _one_of(self, shape: tuple[int, ...], i: int) -> str:
        """A mask: a shared row of zeros, and ones at a place of the last axis."""
        name = f"part_{i}_of_{'x'.join(map(str, shape))}"
        if name not in self.types:
            row = torch.zeros(shape)
            row[..., i] = 1.0
            kind = Type(Space.SHARED, shape)
            self.params = (*self.params, Param(name, kind))
            self.types[name], self.weights[name] = kind, fixed(row)
        return name
