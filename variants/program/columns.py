"""Programs without rows side by side: what reads them reads each part, as far as that goes.

``concat(a, b) @ W`` is ``a @ W[:k] + b @ W[k:]``, and so with elementwise functions, inner products
and sums; ``slice(x @ W)`` is ``x @ slice(W)``. Weights are cut once for each set of parameters.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from dataclasses import replace
from typing import cast

from hetune.variants.program.builder import Builder
from hetune.variants.program.nodes import (
    Concat,
    Dot,
    Einsum,
    Fold,
    Linear,
    Map,
    Op,
    Program,
    Reduce,
    Reshape,
    Slice,
    Softmax,
    Take,
    operands,
    with_operands,
)

_COMBINED = {"sum": "add", "max": "maximum", "min": "minimum"}
_AXES = "abcdefgh"


@functools.lru_cache(maxsize=4096)
def by_columns(program: Program) -> Program:
    """The same program, in which `Concat` and `Slice` of rows are left where they must be."""
    if not any(isinstance(let.op, Concat | Slice) for let in program.lets):
        return program
    columns = _Columns(program.params, program.groups)
    return columns.rebuilt(program, columns.rewritten)


class _Columns(Builder):
    """The values so far."""

    def rewritten(self, op: Op, hint: str) -> str:
        """The name of the value of an operator, whose operands are rewritten already."""
        match op:
            case Concat(parts):
                return self.emit(
                    Concat(tuple(p for part in parts for p in self._parts(part))), hint
                )
            case Slice(x, start, stop) if not self.types[x].space.is_weight:
                return self._rows(x, start, stop)
            case Take(x=x) | Softmax(x=x) | Reduce(x=x) if self._is_cut(x):
                return self._concat([with_operands(op, (p,)) for p in self._parts(x)], hint)
            case Map(fn="outer", args=(x, y)) if self._is_cut(y):
                return self._concat([replace(op, args=(x, part)) for part in self._parts(y)], hint)
            case Map(fn="outer"):
                return self.emit(op, hint)
            case Reshape(x, shape) if self._is_cut(x) and shape[-1:] == self.types[x].shape[-1:]:
                widths = [(part, self.types[part].shape[-1]) for part in self._parts(x)]
                cut: list[Op] = [Reshape(part, (*shape[:-1], width)) for part, width in widths]
                return self._concat(cut, hint)
            case Map() | Dot():
                return self._by_intervals(op, hint)
            case Linear(x, w) if self._is_cut(x):
                return self._products(x, w, hint)
            case Fold(x, axis, _) if self._is_cut(x) and axis < len(self.types[x].shape) - 1:
                return self._concat([replace(op, x=part) for part in self._parts(x)], hint)
            case Fold(x, axis, _) if len(ends := sorted(self._ends_along(x, axis))) > 1:
                return self._folded(op, ends, hint) or self.emit(op, hint)
        return self.emit(op, hint)

    def _parts(self, name: str) -> tuple[str, ...]:
        """What a value has side by side; itself if that is one."""
        op = self.ops.get(name)
        is_rows = not self.types[name].space.is_weight
        return op.parts if isinstance(op, Concat) and is_rows else (name,)

    def _is_cut(self, name: str) -> bool:
        """Whether a value is rows side by side, all of which can move alike."""
        parts = self._parts(name)
        return len(parts) > 1 and all(self.types[p].space is self.types[name].space for p in parts)

    def _concat(self, ops: list[Op], hint: str) -> str:
        parts = tuple(self.rewritten(op, f"{hint}_part") for op in ops)
        return self.emit(Concat(parts), hint)

    def _sum(self, names: list[str], fn: str, hint: str) -> str:
        return functools.reduce(lambda x, y: self.rewritten(Map(fn, (x, y)), hint), names)

    # --- intervals of the last axis -------------------------------------------------------

    def _by_intervals(self, op: Map | Dot, hint: str) -> str:
        """An elementwise function or an inner product, for each interval of its operands' parts."""
        names = operands(op)
        rank = max(len(self.types[name].shape) for name in names)
        # Inner products share the last axis; functions have one that only the longest rows have.
        whole = [n for n in names if isinstance(op, Dot) or len(self.types[n].shape) == rank]
        if not any(len(self._parts(name)) > 1 for name in whole) or not rank:
            return self.emit(op, hint)
        ends = sorted({end for name in whole for end in self._ends(name)})
        made: list[str] = []
        for start, stop in zip((0, *ends), ends, strict=False):
            cut = (self._slice(n, start, stop) if n in whole else n for n in names)
            made.append(self.rewritten(with_operands(op, tuple(cut)), f"{hint}_part"))
        if isinstance(op, Dot):
            return self._sum(made, "add", hint)
        return self.emit(Concat(tuple(made)), hint)

    def _ends(self, name: str) -> list[int]:
        ends: list[int] = []
        for part in self._parts(name):
            ends.append((ends[-1] if ends else 0) + self.types[part].shape[-1])
        return ends

    def _rows(self, name: str, start: int, stop: int) -> str:
        """Some columns of a value, in its own space."""
        found = self._slice(name, start, stop)
        if self.types[found].space is self.types[name].space:
            return found
        return self.emit(Slice(name, start, stop), f"{name}_cut")

    def _slice(self, name: str, start: int, stop: int) -> str:
        """Some columns of a value, from where they come from; of a weight, if all are."""
        kind = self.types[name]
        if (start, stop) == (0, kind.shape[-1]):
            return name
        op = None if kind.space.is_weight else self.ops.get(name)
        match op:
            case Concat(parts):
                return self._slice_parts(parts, start, stop, name)
            case Slice(x, first, _):
                return self._slice(x, first + start, first + stop)
            case Take(x=x) | Softmax(x=x) | Reduce(x=x):
                return self.emit(with_operands(op, (self._rows(x, start, stop),)), f"{name}_cut")
            case Map("outer", (x, y)):
                return self.emit(Map("outer", (x, self._slice(y, start, stop))), f"{name}_cut")
            case Map(args=args):
                rank = len(kind.shape)
                cut = (
                    self._slice(arg, start, stop) if len(self.types[arg].shape) == rank else arg
                    for arg in args
                )
                return self.emit(replace(op, args=tuple(cut)), f"{name}_cut")
            case Linear(x, w):
                return self.emit(Linear(x, self._slice(w, start, stop)), f"{name}_cut")
            case Fold(x, axis, _) if axis < len(self.types[x].shape) - 1:
                return self.emit(replace(op, x=self._rows(x, start, stop)), f"{name}_cut")
            case Reshape(x, shape) if self.types[x].shape[-1:] == shape[-1:]:
                cut_shape = (*shape[:-1], stop - start)
                return self.emit(Reshape(self._rows(x, start, stop), cut_shape), f"{name}_cut")
            case Reshape(x, shape) if found := self._slice_heads(x, shape, start, stop):
                return self.emit(Reshape(found, (*shape[:-1], stop - start)), f"{name}_cut")
        return self.emit(Slice(name, start, stop), f"{name}_cut")

    def _slice_heads(self, x: str, shape: tuple[int, ...], start: int, stop: int) -> str | None:
        """Some columns of each head of a flat value; None where it is not a product's."""
        kind, op = self.types[x], self.ops.get(x)
        if len(kind.shape) != 1:
            return x if not kind.shape else None
        if kind.space.is_weight:
            return self._weight_heads(x, (), shape, start, stop)
        match op:
            case Linear(rows, w) if len(self.types[w].shape) == 2:
                lead = self.types[w].shape[:1]
                return self.emit(
                    Linear(rows, self._weight_heads(w, lead, shape, start, stop)), f"{x}_cut"
                )
            case Map(args=args) if op.fn != "outer":
                parts = _if_all(self._slice_heads(arg, shape, start, stop) for arg in args)
                return self.emit(replace(op, args=parts), f"{x}_cut") if parts else None
        return None

    def _weight_heads(
        self, w: str, lead: tuple[int, ...], shape: tuple[int, ...], start: int, stop: int
    ) -> str:
        heads = self.emit(Reshape(w, (*lead, *shape)), f"{w}_heads")
        cut = self.emit(Slice(heads, start, stop), f"{w}_cut")
        width = math.prod(shape[:-1]) * (stop - start)
        return self.emit(Reshape(cut, (*lead, width)), f"{w}_flat")

    def _slice_parts(self, parts: tuple[str, ...], start: int, stop: int, hint: str) -> str:
        cut: list[str] = []
        first = 0
        for part in parts:
            last = first + self.types[part].shape[-1]
            if max(start, first) < min(stop, last):
                cut.append(self._slice(part, max(start, first) - first, min(stop, last) - first))
            first = last
        return cut[0] if len(cut) == 1 else self.emit(Concat(tuple(cut)), f"{hint}_cut")

    # --- sums over the last axis ----------------------------------------------------------

    def _products(self, x: str, w: str, hint: str) -> str:
        shape, kind = self.types[x].shape, self.types[w]
        axes = _AXES[: len(kind.shape)]
        place = len(shape) - 1  # of the axis that is summed over
        turned = axes[:place] + axes[place + 1 :] + axes[place]
        weight = self.emit(Einsum(f"{axes}->{turned}", (w,)), f"{w}_turned")
        made: list[str] = []
        start = 0
        for part, stop in zip(self._parts(x), self._ends(x), strict=True):
            cut = self.emit(Slice(weight, start, stop), f"{w}_cut")
            own = self.emit(Einsum(f"{turned}->{axes}", (cut,)), f"{w}_part")
            made.append(self.rewritten(Linear(part, own), f"{hint}_part"))
            start = stop
        return self._sum(made, "add", hint)

    def _folded(self, op: Fold, ends: list[int], hint: str) -> str | None:
        made: list[str] = []
        each = "sum" if op.fn == "mean" else op.fn
        for start, stop in zip((0, *ends), ends, strict=False):
            part = self._along(op.x, op.axis, start, stop)
            if part is None:
                return None
            made.append(self.rewritten(Fold(part, op.axis, each), f"{hint}_part"))
        total = self._sum(made, _COMBINED[each], hint)
        if op.fn != "mean":
            return total
        return self.rewritten(Map("scale", (total,), 1 / self.types[op.x].shape[op.axis]), hint)

    # --- intervals of any axis ------------------------------------------------------------

    def _ends_along(self, name: str, axis: int) -> set[int]:
        """Where parts of a value end on an axis, as parts that it is made of do; none if one is."""
        kind, op = self.types[name], self.ops.get(name)
        if kind.space.is_weight or axis >= len(kind.shape):
            return set()
        if axis == len(kind.shape) - 1 and len(self._parts(name)) > 1:
            return {*self._ends(name)}
        match op:
            case Map("outer", (x, y)):
                x_axes = len(self.types[x].shape)
                return self._ends_along(*((x, axis) if axis < x_axes else (y, axis - 1)))
            case Map(args=args):
                return set().union(*(self._ends_along(arg, axis) for arg in args))
            case Reshape(x, shape) if (step := self._step(x, shape, axis)) is not None:
                return {end // step for end in self._ends_along(x, axis) if end % step == 0}
        return set()

    def _step(self, x: str, shape: tuple[int, ...], axis: int) -> int | None:
        """How many elements of the same axis before a reshape one is; None: it is none of one."""
        old = self.types[x].shape
        if old[:axis] != shape[:axis] or len(old) <= axis:
            return None
        if old[axis] == shape[axis]:
            return 1
        return old[axis] // shape[axis] if len(old) == axis + 1 else None

    def _along(self, name: str, axis: int, start: int, stop: int) -> str | None:
        """A part of a value on an axis; None where it is not known how to compute it alone."""
        shape, op = self.types[name].shape, self.ops.get(name)
        if axis >= len(shape):
            return name
        if axis == len(shape) - 1:
            return self._slice(name, start, stop)
        match op:
            case Map(args=args):
                is_outer = op.fn == "outer" and (axis or len(shape) == 2)
                own = args[:1] if is_outer else args
                parts = _if_all(self._along(arg, axis, start, stop) for arg in own)
                if parts is None:
                    return None
                cut = replace(op, args=(*parts, *args[len(own) :]))
                return self.rewritten(cut, f"{name}_cut")
            case Reshape(x, _) if step := self._step(x, shape, axis):
                part = self._along(x, axis, start * step, stop * step)
                cut_shape = *shape[:axis], stop - start, *shape[axis + 1 :]
                return part and self.rewritten(Reshape(part, cut_shape), f"{name}_cut")
        return None


def _if_all(names: Iterable[str | None]) -> tuple[str, ...] | None:
    """The names; None where one of them is none."""
    found = tuple(names)
    return None if None in found else cast(tuple[str, ...], found)
