"""Rows side by side, and parts of rows, where weights can be taken apart instead.

``[a, b] @ W`` is ``a @ W[:k] + b @ W[k:]``, and ``(x @ W)[:, i:j]`` is ``x @ W[:, i:j]``: rows then
need not be moved.
"""

from __future__ import annotations

import torch

from hetune.variants.frontend.tracing.expressions import Expression, called
from hetune.variants.frontend.tracing.recorder import ProgramRecorder
from hetune.variants.program.nodes import Concat, Linear, Map, Op, Slice


def _narrowed(weight: Expression, axis: int, start: int, length: int) -> Expression:
    return called(torch.Tensor.narrow, (weight, axis, start, length), {})


def linear(recorder: ProgramRecorder, x: str, weight: Expression, shape: tuple[int, int]) -> str:
    """A product of rows (K,) with a weight (K, D).

    Args:
        recorder: Of the program.
        x: The rows.
        weight: What they are multiplied with.
        shape: K and D.
    """
    inner, outer = shape
    match recorder.op_of(x):
        case Concat(parts):
            terms, start = [], 0
            for part in parts:
                width = recorder.types[part].width
                some = _narrowed(weight, 0, start, width)
                terms.append(linear(recorder, part, some, (width, outer)))
                start += width
            total = terms[0]
            for term in terms[1:]:
                total = recorder.emit(Map("add", (total, term)), "add")
            return total
        case Map("mul", args) if (factor := _factor(recorder, args)) is not None:
            rows = args[1 - args.index(factor)]
            if _is_apart(recorder, rows):
                product = linear(recorder, rows, weight, shape)
                return recorder.emit(Map("mul", (product, factor)), "mul")
        case Map("scale", (rows,), factor) if _is_apart(recorder, rows):
            product = linear(recorder, rows, weight, shape)
            return recorder.emit(Map("scale", (product,), factor), "scale")
    name = recorder.weight(weight, (inner, outer))
    return recorder.emit(Linear(x, name), f"by_{name}")


def _factor(recorder: ProgramRecorder, args: tuple[str, ...]) -> str | None:
    """The operand that is one number for each row."""
    return next((arg for arg in args if recorder.types[arg].shape == ()), None)


def _is_apart(recorder: ProgramRecorder, x: str) -> bool:
    """Whether rows are put together of parts, scaled or not."""
    match recorder.op_of(x):
        case Concat():
            return True
        case Map("mul", args) if (factor := _factor(recorder, args)) is not None:
            return _is_apart(recorder, args[1 - args.index(factor)])
        case Map("scale", (rows,)):
            return _is_apart(recorder, rows)
    return False


def sliced(recorder: ProgramRecorder, x: str, start: int, stop: int) -> str:
    """Elements of rows (K,)."""
    if recorder.types[x].shape == (stop - start,):
        return x
    if (weight := recorder.weights.get(x)) is not None:
        return recorder.weight(_narrowed(weight, 0, start, stop - start), (stop - start,))
    op = recorder.op_of(x)
    match op:
        case Linear(rows, w) if w in recorder.weights and len(recorder.types[w].shape) == 2:
            inner = recorder.types[w].shape[0]
            some = _narrowed(recorder.weights[w], 1, start, stop - start)
            return linear(recorder, rows, some, (inner, stop - start))
        case Slice(rows, first, _):
            return sliced(recorder, rows, first + start, first + stop)
        case Concat(parts):
            first = 0
            for part in parts:
                last = first + recorder.types[part].width
                if first <= start and stop <= last:
                    return sliced(recorder, part, start - first, stop - first)
                first = last
        case Map(fn, args, const) if fn != "outer" and _are_cheap(recorder, op, x):
            parts = tuple(
                arg if recorder.types[arg].shape == () else sliced(recorder, arg, start, stop)
                for arg in args
            )
            return recorder.emit(Map(fn, parts, const), fn)
    return recorder.emit(Slice(x, start, stop), "slice")


def _are_cheap(recorder: ProgramRecorder, op: Op, x: str) -> bool:
    """Whether parts of what a function is of are no slices themselves."""
    if not isinstance(op, Map) or len(recorder.types[x].shape) != 1:
        return False
    return all(
        recorder.types[arg].shape == ()
        or arg in recorder.weights
        or isinstance(inner := recorder.op_of(arg), Linear | Concat)
        or (inner is not None and _are_cheap(recorder, inner, arg))
        for arg in op.args
    )
