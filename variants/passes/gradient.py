"""The gradient of a program: one rule for each operator."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from hetune.variants.errors import ProgramError
from hetune.variants.passes.derivatives import BINARY, UNARY, ValueRows
from hetune.variants.passes.gradient_tape import GradientTape
from hetune.variants.passes.pipeline import clean, without_unread
from hetune.variants.passes.product import multiply, multiply_chain
from hetune.variants.passes.weights_first import WeightsFirst
from hetune.variants.program.columns import by_columns
from hetune.variants.program.nodes import (
    Concat,
    Count,
    Dot,
    Einsum,
    End,
    Fold,
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
)

Partial = tuple[str, str]
"""An operand, and what its gradient gains by one use."""


def gradient_name(result: str) -> str:
    """The feature of a gradient program that has the gradient of a result."""
    return f"{result}_grad"


def differentiate(program: Program, wanted: Collection[str]) -> Program:
    """The gradients of parameters, from those of the results.

    Args:
        program: A verified program.
        wanted: The parameters whose gradients are results, in this order. Where no result depends
            on one, its gradient is 0.

    Returns:
        A program whose parameters are those of `program` that are still read, and a feature
        `gradient_name` for each result, of its type.

    Raises:
        ProgramError: A value has no derivative rule, or there is no such parameter.
    """
    results = tuple(dict.fromkeys(program.results))
    whole = clean(WeightsFirst()(by_columns(replace(program, results=results))))
    grads = [_gradient_of(program, name) for name in results]
    tape = _Gradient((*whole.params, *grads), whole.groups)
    tape.record(whole, wanted)
    for name, grad in zip(whole.results, grads, strict=True):
        tape.add(tape.renamed[name], grad.name)
    tape.run_back()
    found = tape.finish(whole, tuple(tape.gradient(name) for name in wanted))
    return without_unread(replace(found, name=f"{program.name}_grad"))


def _gradient_of(program: Program, result: str) -> Param:
    type = program.type_of(result)
    return Param(gradient_name(result), type, "weight" if type.space.is_weight else "feature")


class _Gradient(GradientTape):
    """Takes gradients from a program's results back to its parameters."""

    def run_back(self) -> None:
        """Takes gradients from results back to parameters."""
        for let in reversed(self.recorded):
            for g in self.parts(let):
                for name, grad in self._partials(let.op, let.name, g):
                    self.add(name, grad)

    def _partials(self, op: Op, y: str, g: str) -> Iterator[Partial]:
        types = self.types
        match op:
            case Take(x=x, end=end):
                yield x, self.reduced(g, types[x].space, end)
            case Reduce(x=x, fn="sum", end=end):
                yield x, self.taken(g, types[x], end)
            case Reduce():
                yield op.x, self._of_extreme_or_product(op, y, g)
            case Linear(x, w):
                yield from self._of_linear(x, w, self.full(g, y))
            case Map("outer", (x, z)):
                yield from self._of_outer(x, z, self.full(g, y), y)
            case Map(args=args):
                for name, rows in zip(args, self._of_map(op, y, g), strict=True):
                    if rows is not None and name in self.active:
                        yield name, self.into(name, rows.name, types[y])
            case Dot(x, z):
                for name, other in ((x, z), (z, x)):
                    if name in self.active:
                        grad = self._of_dot(name, other, g, y)
                        yield name, self.into(name, grad, types[y].with_shape(*types[name].shape))
            case Softmax(x, over):
                end = End.DST if over is Space.NODE else End.NONE
                shared = self.reduced(self.mul(y, g), over, end)
                mean = self.rows(self.taken(shared, types[x], end))
                yield x, (self.rows(y) * (self.rows(g) - mean)).name
            case Merge(parts):
                for part in parts:
                    yield part, self.taken(g, types[part], End.NONE)
            case Reshape(x):
                yield x, self.reshaped(self.full(g, y), types[x].shape)
            case Concat(parts):
                start, g = 0, self.full(g, y)
                for part in parts:
                    stop = start + types[part].shape[-1]
                    cut = self.emit(Slice(g, start, stop), f"{part}_grad")
                    yield part, self.into(part, cut, types[y].with_shape(*types[part].shape))
                    start = stop
            case Slice(x, start, stop):
                if x in self.active:
                    self.pieces.setdefault(x, []).append((start, stop, self.full(g, y)))
            case Fold():
                yield op.x, self._of_fold(op, y, g)
            case Einsum():
                yield from self._of_einsum(op, y, g)
            case Count():
                pass

    def _of_map(self, op: Map, y: str, g: str) -> tuple[ValueRows | None, ...]:
        rows = [self.rows(name) for name in op.args]
        if len(rows) == 1:
            return (UNARY[op.fn](self.rows(g), rows[0], self.rows(y), op.const or 0.0),)
        return BINARY[op.fn](self.rows(g), rows[0], rows[1], self.rows(y))

    def _of_linear(self, x: str, w: str, g: str) -> Iterator[Partial]:
        kind, weight = self.types[x], self.types[w]
        out = self.types[g]
        if not out.shape:
            yield x, self.mul(g, w)
            yield w, self.into(w, self.mul(g, x), out.with_shape(*kind.shape))
            return
        # Numbers of rows wait until rows are multiplied: then they need not be, edge by edge.
        chain = multiply_chain(self.ops, self.types, g)
        numbers = tuple(f for f in chain.factors if not self.types[f].shape)
        others = tuple(f for f in chain.factors if self.types[f].shape)
        rows = multiply(self, chain.core, others[::-1])
        if len(kind.shape) == 2:
            turned = self.emit(Einsum("hkd->hdk", (w,)), f"{w}_turned")
        else:
            rows, g = (self.reshaped(name, (out.width,)) for name in (rows, g))
            flat = self.reshaped(w, (*kind.shape, out.width))
            turned = self.emit(Einsum("kd->dk", (flat,)), f"{w}_turned")
        product = self.emit(Linear(rows, turned), f"{x}_grad")
        yield x, multiply(self, product, numbers[::-1])
        outer = self.emit(Map("outer", (x, g)), "outer")
        yield w, self.reshaped(self.into(w, outer, self.types[outer]), weight.shape)

    def _of_outer(self, x: str, z: str, g: str, y: str) -> Iterator[Partial]:
        out, axis = self.types[y], len(self.types[x].shape)
        yield z, self.into(z, self.folded(self.mul(x, g), axis - 1), out.with_shape(
            *self.types[z].shape
        ))  # fmt: skip
        if axis == 1:
            dot = self.emit(Dot(g, z), f"{x}_grad")
        else:
            spread = self.emit(Map("outer", (self.ones(x).name, z)), "outer")
            dot = self.folded(self.mul(g, spread), axis)
        yield x, self.into(x, dot, out.with_shape(*self.types[x].shape))

    def _of_dot(self, name: str, other: str, g: str, y: str) -> str:
        """The gradient of one operand, in its own shape."""
        mine, others, out = self.types[name], self.types[other], self.types[y]
        if len(mine.shape) == len(others.shape):
            if others.space is Space.ETYPE and out.space is Space.EDGE and not out.shape:
                # A linear map of one number: it may come after sums over edges.
                rows, weight = self.reshaped(g, (1,)), self.reshaped(other, (1, *others.shape))
                return self.emit(Linear(rows, weight), f"{name}_grad")
            return self.mul(g, other)
        g = self.full(g, y)
        if len(mine.shape) < len(others.shape):
            if others.space.is_weight and len(others.shape) == 2 and not out.space.is_weight:
                return self.emit(Linear(g, other), f"{name}_grad")
            return self.folded(self.mul(g, other), 0)
        if len(mine.shape) != 2:
            shapes = f"{list(mine.shape)} and {list(others.shape)}"
            raise ProgramError(f"{y} is an inner product of {shapes}, which has no derivative rule")
        return self.emit(Map("outer", (g, other)), f"{name}_grad")

    def _of_extreme_or_product(self, op: Reduce, y: str, g: str) -> str:
        kind = self.types[op.x]
        x, came = self.rows(op.x), self.rows(self.taken(g, kind, op.end))
        if op.fn == "prod":
            zero = x("abs").positive().without()
            filled = x + zero
            product = self.emit(replace(op, x=filled.name), f"{y}_filled")
            zeros = self.rows(self.taken(self.reduced(zero.name, op.space, op.end), kind, op.end))
            of_others = self.rows(self.taken(product, kind, op.end)) / filled
            return (came * of_others * (zeros - zero).positive().without()).name
        best = x("equal", self.rows(self.taken(y, kind, op.end)))
        ties = self.rows(self.reduced(best.name, op.space, op.end))
        # As in torch's `scatter_reduce`, the 0 that is there without rows has a share in ties.
        ties = ties + self.rows(y)("abs").positive().without()
        share = self.rows(g) / ties("clamp_min", const=1.0)
        return (best * self.rows(self.taken(share.name, kind, op.end))).name

    def _of_fold(self, op: Fold, y: str, g: str) -> str:
        x, axis = op.x, op.axis
        shape = self.types[x].shape
        if axis < len(shape) - 1:
            g = self.full(g, y)
        if op.fn == "sum":
            return self.spread(g, x, axis)
        if op.fn == "mean":
            return self.spread((self.rows(g) * (1 / shape[axis])).name, x, axis)
        best = self.rows(x)("equal", self.rows(self.spread(y, x, axis)))
        share = self.rows(g) / self.rows(self.emit(Fold(best.name, axis), f"{y}_ties"))
        return (best * self.rows(self.spread(share.name, x, axis))).name

    def _of_einsum(self, op: Einsum, y: str, g: str) -> Iterator[Partial]:
        inputs, result = op.spec.split("->")
        terms = inputs.split(",")
        g = self.full(g, y)
        for i, name in enumerate(op.args):
            specs = [result, *terms[:i], *terms[i + 1 :]]
            args = [g, *op.args[:i], *op.args[i + 1 :]]
            if set(terms[i]) - set("".join(specs)):  # an axis that is summed up alone
                specs.append(terms[i])
                args.append(self.ones(name).name)
            spec = f"{','.join(specs)}->{terms[i]}"
            grad = self.emit(Einsum(spec, tuple(args)), f"{name}_grad")
            yield name, self.into(name, grad, self.types[grad])
