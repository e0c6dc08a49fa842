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
HELPERS = {"gelu": GELU, "tanh": TANH}
"""Functions that Triton's own language lacks, printed where they are used."""

_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/"}


def apply(fn: str, args: tuple[str, ...], const: float | None) -> str:
    """The expression of an elementwise function."""
    if fn in _INFIX:
        return f"{args[0]} {_INFIX[fn]} {args[1]}"
    if fn in HELPERS:
        return f"{fn}({args[0]})"
    match fn:
        case "max":
            return f"tl.maximum({args[0]}, {args[1]})"
        case "relu":
            return f"tl.where({args[0]} < 0.0, 0.0, {args[0]})"  # keeps what is no number
        case "exp" | "sigmoid":
            return f"tl.{fn}({args[0]})"
        case "leaky_relu":
            slope = literal(0.01 if const is None else const)
            return f"tl.where({args[0]} > 0.0, {args[0]}, {args[0]} * {slope})"
        case "scale":
            return f"{args[0]} * {literal(1.0 if const is None else const)}"
        case "reciprocal":
            return f"1.0 / {args[0]}"
        case "one_minus":
            return f"1.0 - {args[0]}"
    raise KernelError(f"the Triton backend has no function {fn!r}: use one of MAP_ARITY, or max")
