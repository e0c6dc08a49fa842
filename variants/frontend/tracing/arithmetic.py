"""Elementwise functions of symbols."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from hetune.variants.frontend.tracing.alignment import Shape, align, is_rows, narrowed, rows_of
from hetune.variants.frontend.tracing.interpreter import Interpreter, handles, words
from hetune.variants.frontend.tracing.not_traceable import NotTraceable
from hetune.variants.frontend.tracing.symbols import RowValue, Symbol
from hetune.variants.program.nodes import Map, Reshape

Operand = Tensor | float


def unary(at: Interpreter, x: Tensor, fn: str, const: float | None = None) -> RowValue:
    """A function of each element."""
    meaning = rows_of(x)
    if const is not None and not math.isfinite(const):
        raise NotTraceable(f"{fn} with the number {const}")
    return RowValue(at.recorder.emit(Map(fn, (meaning.name,), const), fn), meaning.axis)


def binary(at: Interpreter, shape: Shape, fn: str, *operands: Tensor) -> RowValue:
    """A function of elements that meet by torch's rules of broadcasting."""
    found = align(at.recorder, operands, shape)
    name = at.recorder.emit(Map(fn, found.names), fn)
    return RowValue(at.recorder.emit(Reshape(name, found.shape), "reshape"), found.axis)


def as_symbol(at: Interpreter, x: RowValue, like: Shape) -> Tensor:
    """A value under a shape, to go on with."""
    return at.symbol(x, torch.empty(like, device="meta"))


def then(
    at: Interpreter, x: RowValue, shape: Shape, fn: str, const: float | None = None
) -> RowValue:
    """A function of each element of a value that was just made."""
    return unary(at, as_symbol(at, x, shape), fn, const)


def number(x: object) -> float | None:
    """A number that is the same whatever the inputs; None of anything else."""
    if isinstance(x, bool | int | float):
        return float(x)
    return None


def scaled(at: Interpreter, x: Tensor, factor: float) -> RowValue:
    """``factor * x``."""
    return rows_of(x) if factor == 1 else unary(at, x, "scale", factor)


def shifted(at: Interpreter, x: Tensor, term: float) -> RowValue:
    """``x + term``."""
    return rows_of(x) if term == 0 else unary(at, x, "shift", term)


@handles("add", "__add__", "__radd__", "__iadd__")
def _add(at: Interpreter, shape: Shape, x: Operand, y: Operand, *, alpha: float = 1) -> RowValue:
    if (term := number(y)) is not None:
        return shifted(at, x, alpha * term)  # type: ignore[arg-type]
    if (term := number(x)) is not None:
        x, y = y, x
        if alpha != 1:
            raise NotTraceable("add with alpha")
        return shifted(at, x, term)  # type: ignore[arg-type]
    assert isinstance(x, Tensor)
    assert isinstance(y, Tensor)
    if alpha != 1:
        y = y * alpha
    return binary(at, shape, "add", x, y)


@handles("sub", "__sub__", "__isub__", "subtract")
def _sub(at: Interpreter, shape: Shape, x: Operand, y: Operand, *, alpha: float = 1) -> RowValue:
    if (term := number(y)) is not None:
        return shifted(at, x, -alpha * term)  # type: ignore[arg-type]
    assert isinstance(y, Tensor)
    if alpha != 1:
        y = y * alpha
    if (term := number(x)) is not None:
        return _from(at, y, term)
    assert isinstance(x, Tensor)
    return binary(at, shape, "sub", x, y)


@handles("rsub", "__rsub__")
def _rsub(at: Interpreter, shape: Shape, x: Operand, y: Operand, *, alpha: float = 1) -> RowValue:
    return _sub(at, shape, y, x, alpha=alpha)


def _from(at: Interpreter, x: Tensor, term: float) -> RowValue:
    if term == 1:
        return unary(at, x, "one_minus")
    negative = scaled(at, x, -1.0)
    return shifted(at, as_symbol(at, negative, tuple(x.shape)), term)


@handles("mul", "__mul__", "__rmul__", "__imul__", "multiply")
def _mul(at: Interpreter, shape: Shape, x: Operand, y: Operand) -> RowValue:
    if (factor := number(y)) is not None:
        return scaled(at, x, factor)  # type: ignore[arg-type]
    if (factor := number(x)) is not None:
        return scaled(at, y, factor)  # type: ignore[arg-type]
    assert isinstance(x, Tensor)
    assert isinstance(y, Tensor)
    if x is y:
        return unary(at, x, "square")
    return binary(at, shape, "mul", x, y)


@handles("div", "__truediv__", "__itruediv__", "divide", "true_divide")
def _div(at: Interpreter, shape: Shape, x: Operand, y: Operand) -> RowValue:
    if (factor := number(y)) is not None:
        return scaled(at, x, 1 / factor)  # type: ignore[arg-type]
    assert isinstance(y, Tensor)
    if (factor := number(x)) is not None:
        found = unary(at, y, "reciprocal")
        return scaled(at, as_symbol(at, found, shape), factor)
    assert isinstance(x, Tensor)
    if not isinstance(y, Symbol):
        inverse = narrowed(y).reciprocal()
        if bool(inverse.isfinite().all()):
            return binary(at, shape, "mul", x, inverse)
    return binary(at, shape, "div", x, y)


@handles("__rdiv__", "__rtruediv__")
def _rdiv(at: Interpreter, shape: Shape, x: Operand, y: Operand) -> RowValue:
    return _div(at, shape, y, x)


@handles("__rpow__")
def _rpow(at: Interpreter, shape: Shape, x: Operand, y: Operand) -> RowValue:
    return _pow(at, shape, y, x)


@handles("pow", "__pow__", "float_power")
def _pow(at: Interpreter, shape: Shape, x: Operand, y: Operand) -> RowValue:
    exponent = number(y)
    if exponent is None:
        assert isinstance(y, Tensor)
        if (base := number(x)) is not None:
            if base <= 0:
                raise NotTraceable(f"powers of {base}: those of positive numbers compile")
            return then(at, scaled(at, y, math.log(base)), shape, "exp")
        assert isinstance(x, Tensor)
        return binary(at, shape, "pow", x, y)
    assert isinstance(x, Tensor)
    named = {1.0: None, 2.0: "square", 0.5: "sqrt", -0.5: "rsqrt", -1.0: "reciprocal"}
    if exponent not in named:
        return unary(at, x, "pow_c", exponent)
    fn = named[exponent]
    return rows_of(x) if fn is None else unary(at, x, fn)


@handles("maximum")
def _maximum(at: Interpreter, shape: Shape, x: Tensor, y: Tensor) -> RowValue:
    return binary(at, shape, "maximum", x, y)


@handles("minimum")
def _minimum(at: Interpreter, shape: Shape, x: Tensor, y: Tensor) -> RowValue:
    return binary(at, shape, "minimum", x, y)


@handles("clamp", "clip")
def _clamp(
    at: Interpreter,
    shape: Shape,
    x: Tensor,
    min: float | None = None,
    max: float | None = None,
) -> RowValue:
    found = rows_of(x)
    for fn, bound in (("clamp_min", min), ("clamp_max", max)):
        if bound is not None:
            if number(bound) is None:
                raise NotTraceable("clamp by a tensor: give numbers")
            found = then(at, found, shape, fn, float(bound))
    return found


@handles("clamp_min")
def _clamp_min(at: Interpreter, shape: Shape, x: Tensor, min: float) -> RowValue:
    return _clamp(at, shape, x, min=min)


@handles("clamp_max")
def _clamp_max(at: Interpreter, shape: Shape, x: Tensor, max: float) -> RowValue:
    return _clamp(at, shape, x, max=max)


def _register(name: str, fn: str) -> None:
    def handler(at: Interpreter, shape: Shape, x: Tensor, inplace: bool = False) -> RowValue:
        return unary(at, x, fn)

    handles(name)(handler)


for _name in words("relu exp sigmoid tanh reciprocal abs sqrt rsqrt log silu sin cos square"):
    _register(_name, _name)
_register("absolute", "abs")
_register("__abs__", "abs")


@handles("neg", "__neg__", "negative")
def _neg(at: Interpreter, shape: Shape, x: Tensor) -> RowValue:
    return scaled(at, x, -1.0)


@handles("leaky_relu")
def _leaky_relu(
    at: Interpreter,
    shape: Shape,
    input: Tensor,
    negative_slope: float = 0.01,
    inplace: bool = False,
) -> RowValue:
    return unary(at, input, "leaky_relu", float(negative_slope))


@handles("elu")
def _elu(
    at: Interpreter, shape: Shape, input: Tensor, alpha: float = 1.0, inplace: bool = False
) -> RowValue:
    return unary(at, input, "elu", float(alpha))


@handles("gelu")
def _gelu(at: Interpreter, shape: Shape, input: Tensor, *, approximate: str = "none") -> RowValue:
    if approximate != "none":
        raise NotTraceable(f"gelu with approximate={approximate!r}: 'none' compiles")
    return unary(at, input, "gelu")


@handles("softplus")
def _softplus(
    at: Interpreter, shape: Shape, input: Tensor, beta: float = 1, threshold: float = 20
) -> RowValue:
    if beta != 1:
        raise NotTraceable(f"softplus with beta={beta}: 1 compiles")
    return unary(at, input, "softplus")


@handles("dropout")
def _dropout(
    at: Interpreter,
    shape: Shape,
    input: Tensor,
    p: float = 0.5,
    training: bool = True,
    inplace: bool = False,
) -> RowValue:
    if not training or p == 0:
        return rows_of(input)
    if inplace:
        raise NotTraceable("dropout in training mode, in place: inplace=False compiles")
    rows = rows_of(input)
    mask = at.recorder.mask(rows.name, shape, rows.axis, p)
    return RowValue(at.recorder.emit(Map("mul", (rows.name, mask)), "dropout"), rows.axis)


@handles("alpha_dropout", "feature_dropout", "dropout1d", "dropout2d")
def _other_dropout(
    at: Interpreter,
    shape: Shape,
    input: Tensor,
    p: float = 0.5,
    training: bool = True,
    inplace: bool = False,
) -> RowValue:
    if training and p > 0:
        raise NotTraceable("such a dropout in training mode: torch.nn.functional.dropout compiles")
    return rows_of(input)


def _same(at: Interpreter, shape: Shape, x: Tensor, *args: Any, **kwargs: Any) -> RowValue:
    return rows_of(x)


handles(
    "detach", "clone", "contiguous", "float", "double", "to", "type_as", "requires_grad_", "cpu"
)(_same)


def _comparison(names: tuple[str, ...], is_less: bool, or_equal: bool) -> None:
    def handler(at: Interpreter, shape: Shape, x: Operand, y: Operand) -> RowValue:
        # x > y is step(x - y), and x >= y is 1 - step(y - x).
        first, second = (x, y) if is_less == or_equal else (y, x)
        found = then(at, _sub(at, shape, first, second), shape, "step")
        return then(at, found, shape, "one_minus") if or_equal else found

    handles(*names)(handler)


_comparison(("gt", "__gt__", "greater"), False, False)
_comparison(("lt", "__lt__", "less"), True, False)
_comparison(("ge", "__ge__", "greater_equal"), False, True)
_comparison(("le", "__le__", "less_equal"), True, True)


@handles("eq", "__eq__")
def _eq(at: Interpreter, shape: Shape, x: Tensor, y: Operand) -> RowValue:
    """Where roots are infinite: `masked_fill` puts 0 there."""
    found = rows_of(x)
    root = at.recorder.op_of(found.name)
    if y != math.inf or not isinstance(root, Map) or root.fn != "rsqrt":
        raise NotTraceable("rows are compared for equality: compare with > or <")
    positive = RowValue(at.recorder.emit(Map("step", root.args), "step"), found.axis)
    return then(at, positive, shape, "one_minus")


@handles("masked_fill")
def _masked_fill(at: Interpreter, shape: Shape, x: Tensor, mask: Tensor, value: float) -> RowValue:
    op_of = at.recorder.op_of
    root = op_of(rows_of(x).name) if is_rows(x) else None
    if isinstance(root, Map) and root.fn == "rsqrt" and value == 0 and is_rows(mask):
        match op_of(rows_of(mask).name):
            case Map("one_minus", (step,)) if op_of(step) == Map("step", root.args):
                return RowValue(
                    at.recorder.emit(Map("rsqrt0", root.args), "rsqrt0"), rows_of(x).axis
                )
    return _where(at, shape, mask, value, x)


@handles("where")
def _where(at: Interpreter, shape: Shape, condition: Tensor, x: Operand, y: Operand) -> RowValue:
    if condition.dtype is not torch.bool:
        raise NotTraceable("where() by a condition that is no mask")
    mask: Tensor = condition.float()
    if is_rows(condition):
        mask = as_symbol(at, rows_of(condition), tuple(condition.shape))
    kept: Any = x * mask if isinstance(x, Tensor) or x else 0.0
    other: Any = y * (1 - mask) if isinstance(y, Tensor) or y else 0.0
    return rows_of(kept + other)
