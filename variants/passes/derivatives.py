"""Derivatives of the elementwise functions: one line each. Where there are two, torch's choice."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType

from hetune.variants.program.builder import Builder
from hetune.variants.program.nodes import Dot, Map


@dataclass(frozen=True, slots=True)
class ValueRows:
    """A value of a program under construction, with arithmetic."""

    builder: Builder
    name: str

    def __call__(self, fn: str, *others: ValueRows, const: float | None = None) -> ValueRows:
        """A function of `Map`, of this and others."""
        op = Map(fn, (self.name, *(other.name for other in others)), const)
        return ValueRows(self.builder, self.builder.emit(op, fn))

    def __add__(self, other: ValueRows | float) -> ValueRows:
        return self("add", other) if isinstance(other, ValueRows) else self("shift", const=other)

    def __sub__(self, other: ValueRows) -> ValueRows:
        return self("sub", other)

    def __mul__(self, other: ValueRows | float) -> ValueRows:
        if not isinstance(other, ValueRows):
            return self("scale", const=other)
        types = self.builder.types
        x, y = sorted((self, other), key=lambda rows: len(types[rows.name].shape))
        return x("mul", y)

    def __truediv__(self, other: ValueRows) -> ValueRows:
        return self("div", other)

    def __neg__(self) -> ValueRows:
        return self * -1.0

    def without(self) -> ValueRows:
        """One minus these."""
        return self("one_minus")

    def positive(self) -> ValueRows:
        """1 where these are above 0, else 0."""
        return self("step")


def _more(x: ValueRows, z: ValueRows) -> ValueRows:
    """1 where x > z, 0 where x < z, a half where they are equal."""
    difference = x - z
    return (difference.positive() - (-difference).positive() + 1.0) * 0.5


def _leaky(g: ValueRows, x: ValueRows, slope: float) -> ValueRows:
    return g * (x.positive() * (1.0 - slope) + slope)


def _elu(g: ValueRows, x: ValueRows, y: ValueRows, alpha: float) -> ValueRows:
    above = x.positive()
    return g * (above + above.without()("mask", y + alpha))


def _silu(g: ValueRows, x: ValueRows, y: ValueRows) -> ValueRows:
    gate = x("sigmoid")
    return g * (gate + y * gate.without())


_DENSITY_AT_0 = 1 / math.sqrt(2 * math.pi)
"""Of the normal distribution."""


def _gelu(g: ValueRows, x: ValueRows) -> ValueRows:
    x = x + x("abs").positive().without() * 1e-20  # what 0 is divided by itself
    density = (x("square") * -0.5)("exp") * _DENSITY_AT_0
    return g * (x("gelu") / x + x * density)


def _power(g: ValueRows, x: ValueRows, exponent: float) -> ValueRows | None:
    return g * (x("pow_c", const=exponent - 1.0) * exponent) if exponent else None


def _root(g: ValueRows, x: ValueRows, y: ValueRows) -> ValueRows:
    """Of a norm, which is a root of squares: 0 at 0, as torch has it of norms."""
    op = x.builder.op(x.name)
    is_norm = isinstance(op, Dot) and op.x == op.y
    return g * (x("rsqrt0") * 0.5) if is_norm else g / (y * 2.0)


UNARY: MappingProxyType[
    str, Callable[[ValueRows, ValueRows, ValueRows, float], ValueRows | None]
] = MappingProxyType(
    {
        "leaky_relu": lambda g, x, y, c: _leaky(g, x, c),
        "elu": lambda g, x, y, c: _elu(g, x, y, c),
        "scale": lambda g, x, y, c: g * c,
        "shift": lambda g, x, y, c: g,
        "clamp_min": lambda g, x, y, c: g * (-x + c).positive().without(),
        "clamp_max": lambda g, x, y, c: g * (x + -c).positive().without(),
        "pow_c": lambda g, x, y, c: _power(g, x, c),
        "relu": lambda g, x, y, c: x("mask", g),
        "gelu": lambda g, x, y, c: _gelu(g, x),
        "silu": lambda g, x, y, c: _silu(g, x, y),
        "softplus": lambda g, x, y, c: g * x("sigmoid"),
        "exp": lambda g, x, y, c: g * y,
        "log": lambda g, x, y, c: g / x,
        "sigmoid": lambda g, x, y, c: g * (y * y.without()),
        "tanh": lambda g, x, y, c: g * y("square").without(),
        "sin": lambda g, x, y, c: g * x("cos"),
        "cos": lambda g, x, y, c: g * -x("sin"),
        "abs": lambda g, x, y, c: g * (x.positive() - (-x).positive()),
        "sqrt": lambda g, x, y, c: _root(g, x, y),
        "rsqrt": lambda g, x, y, c: g * (y("square") * y * -0.5),
        "rsqrt0": lambda g, x, y, c: g * (y("square") * y * -0.5),
        "square": lambda g, x, y, c: g * (x * 2.0),
        "step": lambda g, x, y, c: None,
        "reciprocal": lambda g, x, y, c: g * -y("square"),
        "one_minus": lambda g, x, y, c: -g,
    }
)
"""From the gradient of y, x, y = fn(x) and the constant, the gradient of x; None if it is 0."""

_Pair = tuple[ValueRows | None, ValueRows | None]


def _pow(g: ValueRows, x: ValueRows, z: ValueRows, y: ValueRows) -> _Pair:
    of_base = z("abs")("mask", z * x("pow", z + -1.0))
    of_exponent = (x("abs") + (-z).positive())("mask", y * x("log"))
    return g * of_base, g * of_exponent


BINARY: MappingProxyType[str, Callable[[ValueRows, ValueRows, ValueRows, ValueRows], _Pair]] = (
    MappingProxyType(
        {
            "add": lambda g, x, z, y: (g, g),
            "sub": lambda g, x, z, y: (g, -g),
            "mul": lambda g, x, z, y: (g * z, g * x),
            "div": lambda g, x, z, y: (g / z, -(g * y / z)),
            "maximum": lambda g, x, z, y: (g * _more(x, z), g * _more(x, z).without()),
            "minimum": lambda g, x, z, y: (g * _more(x, z).without(), g * _more(x, z)),
            "pow": _pow,
            "mask": lambda g, x, z, y: (None, x("mask", g)),
            "equal": lambda g, x, z, y: (None, None),
        }
    )
)
"""From the gradient of y, x, z and y = fn(x, z), the gradients of x and z, in y's shape.

Gradients may have a prefix of that shape, as operands of `Map` may: the rest is the same for all.
"""
