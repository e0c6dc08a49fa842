"""Row values as blocks: tensors with an axis for each lane of rows, then those of the row.

Axes are named: ``"u"`` counts the edges that a program takes of each row at once, ``"n"`` the rows
that it takes of the outermost loop, and a number is an axis of the row shape. Axes of extent 1 are
left out, so that a row of shape (1, 64) is no wider a tensor than one of shape (64,). Edges come
first, so that a thread has all those of its columns, and adds them up in its registers.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isinf

from hetune.variants.errors import KernelError

Axis = str | int
LANES: tuple[Axis, ...] = ("u", "n")


@dataclass(frozen=True, slots=True)
class TritonValue:
    """A row of shape ``shape`` for each lane: an expression with these axes."""

    text: str
    shape: tuple[int, ...]
    axes: tuple[Axis, ...]

    @property
    def lanes(self) -> tuple[Axis, ...]:
        """The axes that are no row's."""
        return tuple(axis for axis in self.axes if axis in LANES)

    def over(self, axes: tuple[Axis, ...]) -> str:
        """The expression with further axes, of extent 1."""
        return lift(self.text, self.axes, axes)


def row_axes(shape: tuple[int, ...]) -> tuple[Axis, ...]:
    """The axes of a row that take room."""
    return tuple(axis for axis, extent in enumerate(shape) if extent > 1)


def lift(text: str, axes: tuple[Axis, ...], wanted: tuple[Axis, ...]) -> str:
    """The expression with the axes ``wanted``, among them all of its own.

    Raises:
        KernelError: it has one that is not wanted.
    """
    if axes == wanted or not axes:
        return text
    if not set(axes) <= set(wanted):
        raise KernelError(f"a value with the axes {axes} is no part of one with {wanted}")
    place = ", ".join(":" if axis in axes else "None" for axis in wanted)
    return f"{text if text.isidentifier() else f'({text})'}[{place}]"


def broadcast(values: tuple[TritonValue, ...]) -> tuple[tuple[int, ...], tuple[Axis, ...]]:
    """The shape and the axes of an elementwise function: of the longest row, and of all lanes.

    Raises:
        KernelError: a shape is no prefix of the longest.
    """
    shape = max((value.shape for value in values), key=len)
    for value in values:
        if shape[: len(value.shape)] != value.shape:
            raise KernelError(
                f"a row of shape {value.shape} does not broadcast to {shape}: "
                "the shorter shape must be a prefix of the longer one"
            )
    lanes = tuple(axis for axis in LANES if any(axis in value.axes for value in values))
    return shape, (*lanes, *row_axes(shape))


def literal(value: float) -> str:
    """A float32 constant."""
    if isinf(value):
        return 'float("inf")' if value > 0 else 'float("-inf")'
    return repr(float(value))


GELU = '''
@triton.jit
def gelu(x):
    """x times the share of a normal distribution that lies below it."""
    return 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))
'''
TANH = '''
@triton.jit
def tanh(x):
    """The hyperbolic tangent: a polynomial near 0 (Cephes), where 1 - e^-2x would cancel."""
    z = x * x
    p = -5.70498872745e-3 * z + 2.06390887954e-2
    p = p * z - 5.37397155531e-2
    p = p * z + 1.33314422036e-1
    p = p * z - 3.33332819422e-1
    e = tl.exp(-2.0 * tl.abs(x))
    far = tl.where(x < 0.0, -1.0, 1.0) * (1.0 - e) / (1.0 + e)
    return tl.where(tl.abs(x) < 0.625, p * z * x + x, far)
'''
SOFTPLUS = '''
@triton.jit
def softplus(x):
    """log(1 + e^x), corrected for the rounding of 1 + e^-|x|."""
    power = tl.exp(-tl.abs(x))
    rounded = (1.0 + power) - 1.0
    rest = tl.where(rounded == 0.0, power, tl.log(1.0 + power) * power / rounded)
    return tl.where(x < 0.0, 0.0, x) + rest
'''
ELU = '''
@triton.jit
def elu(x, alpha):
    """x above 0, else alpha * (e^x - 1): a polynomial near 0 (Cephes), where that would cancel."""
    n = tl.where(x > 0.0, 0.0, x)
    p = 1.9875691500e-4 * n + 1.3981999507e-3
    p = p * n + 8.3334519073e-3
    p = p * n + 4.1665795894e-2
    p = p * n + 1.6666665459e-1
    p = p * n + 5.0000001201e-1
    return tl.where(x > 0.0, x, alpha * tl.where(n > -0.34, p * n * n + n, tl.exp(n) - 1.0))
'''
_POW = '''
@triton.jit
def {name}(x, y):
    """x to the power of y, by logarithms in double precision."""
    wide = y * tl.full(x.shape, 1.0, tl.float64)
    size = tl.exp2(wide * tl.log2(tl.abs(x).to(tl.float64)))
    half = wide * 0.5
    odd = tl.where(wide == tl.floor(wide), -1.0, float("nan"))
    sign = tl.where(half == tl.floor(half), 1.0, odd)
    found = tl.where(wide == 0.0, 1.0, tl.where(x < 0.0, sign * size, size))
    return found.to(tl.float32)
'''
_COMBINE = '''
@triton.jit
def {name}_of(x, y):
    """What a reduction makes of two elements."""
    return {text}
'''
HELPERS = {
    "gelu": GELU,
    "tanh": TANH,
    "softplus": SOFTPLUS,
    "elu": ELU,
    "pow": _POW.format(name="pow"),
    "pow_c": _POW.format(name="pow_c"),
    "maximum_of": _COMBINE.format(
        name="maximum", text="tl.maximum(x, y, propagate_nan=tl.PropagateNan.ALL)"
    ),
    "minimum_of": _COMBINE.format(
        name="minimum", text="tl.minimum(x, y, propagate_nan=tl.PropagateNan.ALL)"
    ),
    "prod_of": _COMBINE.format(name="prod", text="x * y"),
}
"""Functions that Triton's own language lacks, printed where they are used."""

_INFIX = {"add": "+", "sub": "-", "mul": "*", "outer": "*", "div": "/"}
_EXTREMES = {
    "maximum": "tl.maximum", "minimum": "tl.minimum",
    "clamp_min": "tl.maximum", "clamp_max": "tl.minimum",
}  # fmt: skip
_OWN = ("exp", "sigmoid", "log", "sin", "cos", "abs", "sqrt", "rsqrt")
"""Functions of Triton's own language."""


def apply(fn: str, args: tuple[str, ...], const: float | None) -> str:
    """The expression of an elementwise function."""
    if fn in _INFIX:
        return f"{args[0]} {_INFIX[fn]} {args[1]}"
    numbers = (*args, *(() if const is None else (literal(const),)))
    if fn in HELPERS:
        return f"{fn}({', '.join(numbers)})"
    if fn in _EXTREMES:  # what is no number stays so
        return f"{_EXTREMES[fn]}({', '.join(numbers)}, propagate_nan=tl.PropagateNan.ALL)"
    if fn in _OWN:
        return f"tl.{fn}({args[0]})"
    match fn:
        case "equal":
            return f"tl.where({args[0]} == {args[1]}, 1.0, 0.0)"
        case "mask":
            return f"tl.where({args[0]} > 0.0, {args[1]}, 0.0)"
        case "relu":
            return f"tl.where({args[0]} < 0.0, 0.0, {args[0]})"  # keeps what is no number
        case "leaky_relu":
            return f"tl.where({args[0]} > 0.0, {args[0]}, {args[0]} * {numbers[1]})"
        case "scale":
            return f"{args[0]} * {numbers[1]}"
        case "shift":
            return f"{args[0]} + {numbers[1]}"
        case "silu":
            return f"{args[0]} * tl.sigmoid({args[0]})"
        case "square":
            return f"{args[0]} * {args[0]}"
        case "rsqrt0":
            return f"tl.where({args[0]} <= 0.0, 0.0, tl.rsqrt({args[0]}))"
        case "step":
            return f"tl.where({args[0]} > 0.0, 1.0, 0.0)"
        case "reciprocal":
            return f"1.0 / {args[0]}"
        case "one_minus":
            return f"1.0 - {args[0]}"
    raise KernelError(f"the Triton backend has no function {fn!r}: use one of MAP_ARITY")
