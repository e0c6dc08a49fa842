"""The gradient of a program: one rule for each operator."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator
from dataclasses import replace

from hetune.variants.errors import ProgramError
from hetune.variants.passes.derivatives import BINARY, UNARY, ValueRows
from hetune.variants.passes.pipeline import clean
from hetune.variants.passes.product import multiply, multiply_chain
from hetune.variants.passes.weights_first import WeightsFirst
from hetune.variants.program.builder import Builder
from hetune.variants.program.columns import by_columns
from hetune.variants.program.nodes import (
    Concat,
    Count,
    Dot,
    Einsum,
    End,
    Fold,
    Let,
    Linear,
    Map,
    Merge,
    Op,
    Param,
    Program,
    Reduce,
    Reshape,
    Slice,
    Softmax,
    Space,
    Take,
    Type,
    operands,
    with_operands,
)

Partial = tuple[str, str]
"""An operand, and what its gradient gains by one use."""


def gradient_name(result: str) -> str:
    """The feature of a gradient program that has the gradient of a result."""
    return f"{result}_grad"


def differentiate(
    program: Program, wanted: Collection[str], saved: Collection[str] = ()
) -> Program:
    """The gradients of parameters, from those of the results.

    Args:
        program: A verified program.
        wanted: The parameters whose gradients are results, in this order. Where no result depends
            on one, its gradient is 0.
        saved: Values of the program, rows of nodes or edges, that are given again.

    Returns:
        A program whose parameters are those of `program` that are still read, a feature
        `gradient_name` for each result, of its type, and a feature for each saved value.

    Raises:
        ProgramError: A value has no derivative rule, or there is no such parameter or value.
    """
    results = tuple(dict.fromkeys(program.results))
    whole = replace(program, results=(*results, *saved))
    whole = clean(WeightsFirst()(by_columns(whole)))
    given = {name: Param(name, program.type_of(name), "feature") for name in saved}
    kept = dict(zip(whole.results[len(results) :], saved, strict=True))
    grads = [_gradient_of(program, name) for name in results]
    tape = _Tape((*whole.params, *given.values(), *grads), whole.groups)
    tape.record(whole, wanted, kept)
    for name, grad in zip(whole.results, grads, strict=False):
        tape.add(tape.renamed[name], grad.name)
    tape.run_back()
    found = tape.finish(whole, tuple(tape.gradient(name) for name in wanted))
    read = {*found.results, *(name for let in found.lets for name in operands(let.op))}
    params = tuple(param for param in found.params if param.name in read)
    return replace(found, name=f"{program.name}_grad", params=params)


def _gradient_of(program: Program, result: str) -> Param:
    type = program.type_of(result)
    return Param(gradient_name(result), type, "weight" if type.space.is_weight else "feature")


class _Tape(Builder):
    """The values of a program, and what their gradients are made of."""

    def record(self, program: Program, wanted: Collection[str], kept: dict[str, str]) -> None:
        """Emits the program's values; those that are kept are parameters."""
        self.renamed = {param.name: param.name for param in program.params} | kept
        self._grads: dict[str, list[str]] = {}
        self._pieces: dict[str, list[tuple[int, int, str]]] = {}
        self._recorded: list[Let] = []
        self._active = set(wanted)
        for let in program.lets:
            op = with_operands(let.op, tuple(self.renamed[name] for name in operands(let.op)))
            name = self.renamed.get(let.name) or self.emit(op, let.name)
            self.renamed[let.name] = name
            if not self._active.isdisjoint(operands(op)):
                self._active.add(name)
                self._recorded.append(Let(name, let.type, op))

    def add(self, name: str, grad: str) -> None:
        """Counts a gradient in, if the value depends on what is wanted."""
        if name in self._active:
            self._grads.setdefault(name, []).append(grad)

    def run_back(self) -> None:
        """Takes gradients from results back to parameters."""
        for let in reversed(self._recorded):
            for g in self._parts(let):
                for name, grad in self._partials(let.op, let.name, g):
                    self.add(name, grad)

    def _parts(self, let: Let) -> list[str]:
        """The gradient of a value: one, or terms of a sum whose linear maps stay on their own.

        Each may then come after the sum over edges that follows.
        """
        alone: list[str] = []
        if isinstance(let.op, Take):
            terms = self._grads.pop(let.name, [])
            alone = [term for term in terms if self._is_product(term)]
            if others := [term for term in terms if term not in alone]:
                self._grads[let.name] = others
        is_left = let.name in self._grads or let.name in self._pieces
        return [*alone, self._total(let.name)] if is_left else alone

    def _is_product(self, name: str) -> bool:
        return isinstance(self.op(multiply_chain(self.ops, self.types, name).core), Linear)

    def gradient(self, name: str) -> str:
        """The whole gradient of a parameter.

        Raises:
            ProgramError: There is no such parameter.
        """
        if name not in {param.name for param in self.params}:
            raise ProgramError(f"there is no parameter {name!r}: want gradients of parameters")
        if name in self._grads or name in self._pieces:
            return self._full(self._total(name), name)
        return (self._ones(name) * 0.0).name

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
                parts = (super(_Tape, self).emit(replace(op, x=n), hint) for n in operands(outer))
                return super().emit(with_operands(outer, tuple(parts)), hint)
        return super().emit(op, hint)

    def _same_for_heads(self, name: str) -> str | None:
        """The row [D] that rows [H, D] repeat for each head, if they do."""
        outer = self.op(name)
        if not isinstance(outer, Map) or outer.fn != "outer" or len(self.types[name].shape) != 2:
            return None
        ones = self.op(outer.args[0])
        if isinstance(ones, Take):
            ones = self.op(ones.x)
        is_one = isinstance(ones, Map) and (ones.fn, ones.const) == ("pow_c", 0.0)
        return outer.args[1] if is_one else None

    # --- rules ----------------------------------------------------------------------------

    def _partials(self, op: Op, y: str, g: str) -> Iterator[Partial]:
        types = self.types
        match op:
            case Take(x=x, end=end):
                yield x, self._reduced(g, types[x].space, end)
            case Reduce(x=x, fn="sum", end=end):
                yield x, self._taken(g, types[x], end)
            case Reduce():
                yield op.x, self._of_extreme_or_product(op, y, g)
            case Linear(x, w):
                yield from self._of_linear(x, w, self._full(g, y))
            case Map("outer", (x, z)):
                yield from self._of_outer(x, z, self._full(g, y), y)
            case Map(args=args):
                for name, rows in zip(args, self._of_map(op, y, g), strict=True):
                    if rows is not None and name in self._active:
                        yield name, self._into(name, rows.name, types[y])
            case Dot(x, z):
                for name, other in ((x, z), (z, x)):
                    if name in self._active:
                        grad = self._of_dot(name, other, g, y)
                        yield name, self._into(name, grad, types[y].with_shape(*types[name].shape))
            case Softmax(x, over):
                end = End.DST if over is Space.NODE else End.NONE
                shared = self._reduced(self._mul(y, g), over, end)
                mean = self._rows(self._taken(shared, types[x], end))
                yield x, (self._rows(y) * (self._rows(g) - mean)).name
            case Merge(parts):
                for part in parts:
                    yield part, self._taken(g, types[part], End.NONE)
            case Reshape(x):
                yield x, self._reshaped(self._full(g, y), types[x].shape)
            case Concat(parts):
                start, g = 0, self._full(g, y)
                for part in parts:
                    stop = start + types[part].shape[-1]
                    cut = self.emit(Slice(g, start, stop), f"{part}_grad")
                    yield part, self._into(part, cut, types[y].with_shape(*types[part].shape))
                    start = stop
            case Slice(x, start, stop):
                if x in self._active:
                    self._pieces.setdefault(x, []).append((start, stop, self._full(g, y)))
            case Fold():
                yield op.x, self._of_fold(op, y, g)
            case Einsum():
                yield from self._of_einsum(op, y, g)
            case Count():
                pass

    def _of_map(self, op: Map, y: str, g: str) -> tuple[ValueRows | None, ...]:
        rows = [self._rows(name) for name in op.args]
        if len(rows) == 1:
            return (UNARY[op.fn](self._rows(g), rows[0], self._rows(y), op.const or 0.0),)
        return BINARY[op.fn](self._rows(g), rows[0], rows[1], self._rows(y))

    def _of_linear(self, x: str, w: str, g: str) -> Iterator[Partial]:
        kind, weight = self.types[x], self.types[w]
        out = self.types[g]
        if not out.shape:
            yield x, self._mul(g, w)
            yield w, self._into(w, self._mul(g, x), out.with_shape(*kind.shape))
            return
        # Numbers of rows wait until rows are multiplied: then they need not be, edge by edge.
        chain = multiply_chain(self.ops, self.types, g)
        numbers = tuple(f for f in chain.factors if not self.types[f].shape)
        others = tuple(f for f in chain.factors if self.types[f].shape)
        rows = multiply(self, chain.core, others[::-1])
        if len(kind.shape) == 2:
            turned = self.emit(Einsum("hkd->hdk", (w,)), f"{w}_turned")
        else:
            rows, g = (self._reshaped(name, (out.width,)) for name in (rows, g))
            flat = self._reshaped(w, (*kind.shape, out.width))
            turned = self.emit(Einsum("kd->dk", (flat,)), f"{w}_turned")
        product = self.emit(Linear(rows, turned), f"{x}_grad")
        yield x, multiply(self, product, numbers[::-1])
        outer = self.emit(Map("outer", (x, g)), "outer")
        yield w, self._reshaped(self._into(w, outer, self.types[outer]), weight.shape)

    def _of_outer(self, x: str, z: str, g: str, y: str) -> Iterator[Partial]:
        out, axis = self.types[y], len(self.types[x].shape)
        yield z, self._into(z, self._folded(self._mul(x, g), axis - 1), out.with_shape(
            *self.types[z].shape
        ))  # fmt: skip
        if axis == 1:
            dot = self.emit(Dot(g, z), f"{x}_grad")
        else:
            spread = self.emit(Map("outer", (self._ones(x).name, z)), "outer")
            dot = self._folded(self._mul(g, spread), axis)
        yield x, self._into(x, dot, out.with_shape(*self.types[x].shape))

    def _of_dot(self, name: str, other: str, g: str, y: str) -> str:
        """The gradient of one operand, in its own shape."""
        mine, others, out = self.types[name], self.types[other], self.types[y]
        if len(mine.shape) == len(others.shape):
            if others.space is Space.ETYPE and out.space is Space.EDGE and not out.shape:
                # A linear map of one number: it may come after sums over edges.
                rows, weight = self._reshaped(g, (1,)), self._reshaped(other, (1, *others.shape))
                return self.emit(Linear(rows, weight), f"{name}_grad")
            return self._mul(g, other)
        g = self._full(g, y)
        if len(mine.shape) < len(others.shape):
            if others.space.is_weight and len(others.shape) == 2 and not out.space.is_weight:
                return self.emit(Linear(g, other), f"{name}_grad")
            return self._folded(self._mul(g, other), 0)
        if len(mine.shape) != 2:
            shapes = f"{list(mine.shape)} and {list(others.shape)}"
            raise ProgramError(f"{y} is an inner product of {shapes}, which has no derivative rule")
        return self.emit(Map("outer", (g, other)), f"{name}_grad")

    def _of_extreme_or_product(self, op: Reduce, y: str, g: str) -> str:
        kind = self.types[op.x]
        x, came = self._rows(op.x), self._rows(self._taken(g, kind, op.end))
        if op.fn == "prod":
            zero = x("abs").positive().without()
            filled = x + zero
            product = self.emit(replace(op, x=filled.name), f"{y}_filled")
            zeros = self._rows(
                self._taken(self._reduced(zero.name, op.space, op.end), kind, op.end)
            )
            of_others = self._rows(self._taken(product, kind, op.end)) / filled
            return (came * of_others * (zeros - zero).positive().without()).name
        best = x("equal", self._rows(self._taken(y, kind, op.end)))
        ties = self._rows(self._reduced(best.name, op.space, op.end))
        # As in torch's `scatter_reduce`, the 0 that is there without rows has a share in ties.
        ties = ties + self._rows(y)("abs").positive().without()
        share = self._rows(g) / ties("clamp_min", const=1.0)
        return (best * self._rows(self._taken(share.name, kind, op.end))).name

    def _of_fold(self, op: Fold, y: str, g: str) -> str:
        x, axis = op.x, op.axis
        shape = self.types[x].shape
        if axis < len(shape) - 1:
            g = self._full(g, y)
        if op.fn == "sum":
            return self._spread(g, x, axis)
        if op.fn == "mean":
            return self._spread((self._rows(g) * (1 / shape[axis])).name, x, axis)
        best = self._rows(x)("equal", self._rows(self._spread(y, x, axis)))
        share = self._rows(g) / self._rows(self.emit(Fold(best.name, axis), f"{y}_ties"))
        return (best * self._rows(self._spread(share.name, x, axis))).name

    def _of_einsum(self, op: Einsum, y: str, g: str) -> Iterator[Partial]:
        inputs, result = op.spec.split("->")
        terms = inputs.split(",")
        g = self._full(g, y)
        for i, name in enumerate(op.args):
            specs = [result, *terms[:i], *terms[i + 1 :]]
            args = [g, *op.args[:i], *op.args[i + 1 :]]
            if set(terms[i]) - set("".join(specs)):  # an axis that is summed up alone
                specs.append(terms[i])
                args.append(self._ones(name).name)
            spec = f"{','.join(specs)}->{terms[i]}"
            grad = self.emit(Einsum(spec, tuple(args)), f"{name}_grad")
            yield name, self._into(name, grad, self.types[grad])

    # --- helpers --------------------------------------------------------------------------

    def _rows(self, name: str) -> ValueRows:
        return ValueRows(self, name)

    def _mul(self, x: str, y: str) -> str:
        return (self._rows(x) * self._rows(y)).name

    def _ones(self, name: str) -> ValueRows:
        return self._rows(name)("pow_c", const=0.0)

    def _total(self, name: str) -> str:
        """The sum of what a value's gradient is made of; it may have a prefix of its shape."""
        parts = self._grads.pop(name, [])
        if name in self._pieces:
            parts.append(self._side_by_side(name, self._pieces.pop(name)))
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
                    cut = self._rows(self._cut(grad, start - first, stop - first))
                    total = cut if total is None else total + cut
            parts.append((total or self._ones(self._cut(name, start, stop)) * 0.0).name)
        return parts[0] if len(parts) == 1 else self.emit(Concat(tuple(parts)), f"{name}_grad")

    def _cut(self, name: str, start: int, stop: int) -> str:
        if (start, stop) == (0, self.types[name].shape[-1]):
            return name
        return self.emit(Slice(name, start, stop), "slice")

    def _full(self, g: str, like: str) -> str:
        """A gradient in a value's whole shape."""
        if self.types[g].shape == self.types[like].shape:
            return g
        return self._mul(g, self._ones(like).name)

    def _into(self, name: str, g: str, kind: Type) -> str:
        """A gradient of rows that an operand was spread to, as one of the operand."""
        mine = self.types[name]
        for axis in reversed(range(len(mine.shape), len(kind.shape))):
            if len(self.types[g].shape) > axis:
                g = self._folded(g, axis)
            else:
                g = (self._rows(g) * float(kind.shape[axis])).name
        return g if mine.space is kind.space else self._reduced(g, mine.space, End.NONE)

    def _folded(self, name: str, axis: int) -> str:
        """The sum over an axis, as an inner product where it is one."""
        rank, op = len(self.types[name].shape), self.op(name)
        if isinstance(op, Map) and op.fn == "mul":
            x, y = sorted(op.args, key=lambda arg: len(self.types[arg].shape))
            if len(self.types[x].shape) <= axis:
                return self._mul(x, self._folded(y, axis))
            if axis == rank - 1 and self.types[x].shape == self.types[y].shape:
                return self.emit(Dot(*op.args), "sum")
        return self.emit(Fold(name, axis), "sum")

    def _spread(self, name: str, like: str, axis: int) -> str:
        """Rows without an axis of a value, the same along that axis; of a prefix of its shape."""
        shape = self.types[like].shape
        if axis >= len(self.types[name].shape):
            return name
        before, after = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
        flat = self._reshaped(like, (before * shape[axis], after))
        ones = self._ones(self.emit(Fold(flat, 1), "sum")).name  # of that shape
        heads = (before,) if before > 1 else ()
        along = self._reshaped(ones, (*heads, shape[axis]))
        outer = Map("outer", (along, self._reshaped(name, (*heads, after))))
        return self._reshaped(self.emit(outer, "outer"), shape)

    def _reshaped(self, name: str, shape: tuple[int, ...]) -> str:
        """The same rows in another shape, which they get where they come from."""
        if self.types[name].shape == shape:
            return name
        match self.op(name):
            case Reshape(x):
                return self._reshaped(x, shape)
            case Take(x=x) as take:
                return self.emit(replace(take, x=self._reshaped(x, shape)), "reshape")
        return self.emit(Reshape(name, shape), "reshape")

    def _taken(self, name: str, kind: Type, end: End) -> str:
        """Rows copied to a type's rows, from where they come from."""
        op = self.op(name)
        if isinstance(op, Take) and self.types[op.x].space in (Space.NODE, Space.SOURCE):
            name, end = op.x, op.end if op.end is not End.NONE else end
        return self.emit(
            Take(name, kind.space, end, kind.group),
            f"{name}_{end.value}" if end is not End.NONE else f"{name}_{kind.space.value}",
        )

    def _reduced(self, name: str, space: Space, end: End) -> str:
        """Rows added up, in one step from where they come from."""
        op = self.op(name)
        if isinstance(op, Reduce) and op.fn == "sum" and op.space.is_edgewise:
            name, end = op.x, op.end if op.end is not End.NONE else end
        return self.emit(Reduce(name, space, end=end), "sum")
