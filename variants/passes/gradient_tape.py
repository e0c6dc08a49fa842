"""A program's values, what their gradients are made of, and what rules make those of."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection
from dataclasses import replace

from hetune.variants.errors import ProgramError
from hetune.variants.passes.derivatives import ValueRows
from hetune.variants.passes.product import multiply_chain
from hetune.variants.program.builder import Builder
from hetune.variants.program.nodes import (
    Concat,
    Dot,
    End,
    Fold,
    Let,
    Linear,
    Map,
    Op,
    Program,
    Reduce,
    Reshape,
    Slice,
    Space,
    Take,
    Type,
    operands,
    with_operands,
)


class GradientTape(Builder):
    """The values of a program, and what their gradients are made of."""

    def record(self, program: Program, wanted: Collection[str]) -> None:
        """Emits the program's values."""
        self.renamed = {param.name: param.name for param in program.params}
        self._grads: dict[str, list[str]] = {}
        self.pieces: dict[str, list[tuple[int, int, str]]] = {}
        self.recorded: list[Let] = []
        self.active = set(wanted)
        for let in program.lets:
            op = with_operands(let.op, tuple(self.renamed[name] for name in operands(let.op)))
            name = self.renamed[let.name] = self.emit(op, let.name)
            if not self.active.isdisjoint(operands(op)):
                self.active.add(name)
                self.recorded.append(Let(name, let.type, op))

    def add(self, name: str, grad: str) -> None:
        """Counts a gradient in, if the value depends on what is wanted."""
        if name in self.active:
            self._grads.setdefault(name, []).append(grad)

    def parts(self, let: Let) -> list[str]:
        """The gradient of a value: one, or terms of a sum whose linear maps stay on their own.

        Each may then come after the sum over edges that follows.
        """
        alone: list[str] = []
        if isinstance(let.op, Take):
            terms = self._grads.pop(let.name, [])
            alone = [term for term in terms if self._is_product(term)]
            if others := [term for term in terms if term not in alone]:
                self._grads[let.name] = others
        is_left = let.name in self._grads or let.name in self.pieces
        return [*alone, self.total(let.name)] if is_left else alone

    def _is_product(self, name: str) -> bool:
        return isinstance(self.op(multiply_chain(self.ops, self.types, name).core), Linear)

    def gradient(self, name: str) -> str:
        """The whole gradient of a parameter.

        Raises:
            ProgramError: There is no such parameter.
        """
        if name not in {param.name for param in self.params}:
            raise ProgramError(f"there is no parameter {name!r}: want gradients of parameters")
        if name in self._grads or name in self.pieces:
            return self.full(self.total(name), name)
        return (self.ones(name) * 0.0).name

    def emit(self, op: Op, hint: str) -> str:
        """A value; rows that are the same for all heads meet others as they are."""
        match op:
            case Map("mul", (x, y)) if (same := self._same_for_heads(y)) is not None:
                if self.types[x].shape == self.types[y].shape[:-1]:
                    return self.emit(Map("outer", (x, same)), hint)
            case Dot(x, y) if self.types[x].shape == self.types[y].shape:
                for rows, other in ((x, y), (y, x)):
                    if (same := self._same_for_heads(rows)) is not None:
                        return super().emit(Dot(same, other), hint)
            case Take(x=x) if self._same_for_heads(x) is not None:
                outer = self.ops[x]
                parts = (
                    super(GradientTape, self).emit(replace(op, x=n), hint) for n in operands(outer)
                )
                return super().emit(with_operands(outer, tuple(parts)), hint)
        return super().emit(op, hint)

    def _same_for_heads(self, name: str) -> str | None:
        """The row [D] that rows [H, D] repeat for each head, if they do."""
        outer = self.op(name)
        if not isinstance(outer, Map) or outer.fn != "outer" or len(self.types[name].shape) != 2:
            return None
        if len({self.types[arg].space for arg in outer.args}) > 1:
            return None
        ones = self.op(outer.args[0])
        if isinstance(ones, Take):
            ones = self.op(ones.x)
        is_one = isinstance(ones, Map) and (ones.fn, ones.const) == ("pow_c", 0.0)
        return outer.args[1] if is_one else None

    def rows(self, name: str) -> ValueRows:
        """A value with arithmetic."""
        return ValueRows(self, name)

    def mul(self, x: str, y: str) -> str:
        """The product of two values."""
        return (self.rows(x) * self.rows(y)).name

    def ones(self, name: str) -> ValueRows:
        """1 for each element of a value."""
        return self.rows(name)("pow_c", const=0.0)

    def total(self, name: str) -> str:
        """The sum of what a value's gradient is made of; it may have a prefix of its shape."""
        parts = self._grads.pop(name, [])
        if name in self.pieces:
            parts.append(self._side_by_side(name, self.pieces.pop(name)))
        total, *others = parts
        for part in others:
            total = self.emit(Map("add", (total, part)), f"{name}_grad")
        return total

    def _side_by_side(self, name: str, pieces: list[tuple[int, int, str]]) -> str:
        """Gradients of slices of a value as one, with zeros where there are none."""
        width = self.types[name].shape[-1]
        ends = sorted({0, width, *(end for start, stop, _ in pieces for end in (start, stop))})
        parts: list[str] = []
        for start, stop in itertools.pairwise(ends):
            total: ValueRows | None = None
            for first, last, grad in pieces:
                if first <= start and stop <= last:
                    cut = self.rows(self.cut(grad, start - first, stop - first))
                    total = cut if total is None else total + cut
            parts.append((total or self.ones(self.cut(name, start, stop)) * 0.0).name)
        return parts[0] if len(parts) == 1 else self.emit(Concat(tuple(parts)), f"{name}_grad")

    def cut(self, name: str, start: int, stop: int) -> str:
        """Some columns of a value."""
        if (start, stop) == (0, self.types[name].shape[-1]):
            return name
        return self.emit(Slice(name, start, stop), "slice")

    def full(self, g: str, like: str) -> str:
        """A gradient in a value's whole shape."""
        if self.types[g].shape == self.types[like].shape:
            return g
        return self.mul(g, self.ones(like).name)

    def into(self, name: str, g: str, kind: Type) -> str:
        """A gradient of rows that an operand was spread to, as one of the operand."""
        mine = self.types[name]
        for axis in reversed(range(len(mine.shape), len(kind.shape))):
            if len(self.types[g].shape) > axis:
                g = self.folded(g, axis)
            else:
                g = (self.rows(g) * float(kind.shape[axis])).name
        return g if mine.space is kind.space else self.reduced(g, mine.space, End.NONE)

    def folded(self, name: str, axis: int) -> str:
        """The sum over an axis, as an inner product where it is one."""
        rank, op = len(self.types[name].shape), self.op(name)
        if isinstance(op, Map) and op.fn == "mul":
            x, y = sorted(op.args, key=lambda arg: len(self.types[arg].shape))
            if len(self.types[x].shape) <= axis:
                return self.mul(x, self.folded(y, axis))
            if axis == rank - 1 and self.types[x].shape == self.types[y].shape:
                return self.emit(Dot(*op.args), "sum")
        return self.emit(Fold(name, axis), "sum")

    def spread(self, name: str, like: str, axis: int) -> str:
        """Rows without an axis of a value, the same along that axis; of a prefix of its shape."""
        shape = self.types[like].shape
        if axis >= len(self.types[name].shape):
            return name
        before, after = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
        flat = self.reshaped(like, (before * shape[axis], after))
        ones = self.ones(self.emit(Fold(flat, 1), "sum")).name  # of that shape
        heads = (before,) if before > 1 else ()
        along = self.reshaped(ones, (*heads, shape[axis]))
        outer = Map("outer", (along, self.reshaped(name, (*heads, after))))
        return self.reshaped(self.emit(outer, "outer"), shape)

    def reshaped(self, name: str, shape: tuple[int, ...]) -> str:
        """The same rows in another shape, which they get where they come from."""
        if self.types[name].shape == shape:
            return name
        match self.op(name):
            case Reshape(x):
                return self.reshaped(x, shape)
            case Take(x=x) as take:
                return self.emit(replace(take, x=self.reshaped(x, shape)), "reshape")
        return self.emit(Reshape(name, shape), "reshape")

    def taken(self, name: str, kind: Type, end: End) -> str:
        """Rows copied to a type's rows, from where they come from."""
        op = self.op(name)
        if isinstance(op, Take) and self.types[op.x].space in (Space.NODE, Space.SOURCE):
            name, end = op.x, op.end if op.end is not End.NONE else end
        return self.emit(
            Take(name, kind.space, end, kind.group),
            f"{name}_{end.value}" if end is not End.NONE else f"{name}_{kind.space.value}",
        )

    def reduced(self, name: str, space: Space, end: End) -> str:
        """Rows added up, in one step from where they come from."""
        op = self.op(name)
        if isinstance(op, Reduce) and op.fn == "sum" and op.space.is_edgewise:
            name, end = op.x, op.end if op.end is not End.NONE else end
        return self.emit(Reduce(name, space, end=end), "sum")
