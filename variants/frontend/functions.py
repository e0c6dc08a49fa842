"""Functions of values that are traced: see `trace`."""

from __future__ import annotations

from hetune.variants.errors import ProgramError
from hetune.variants.frontend.trace import Value
from hetune.variants.program.nodes import Dot, Softmax, Space


def leaky_relu(x: Value, slope: float = 0.01) -> Value:
    """``x`` where it is positive, else ``slope * x``."""
    return _map("leaky_relu", x, float(slope))


def elu(x: Value, alpha: float = 1.0) -> Value:
    """``x`` where it is positive, else ``alpha * (e ** x - 1)``."""
    return _map("elu", x, float(alpha))


def relu(x: Value) -> Value:
    """``max(x, 0)``."""
    return _map("relu", x)


def gelu(x: Value) -> Value:
    """``x`` times the normal distribution's mass below it (exact, by erf)."""
    return _map("gelu", x)


def silu(x: Value) -> Value:
    """``x * sigmoid(x)``."""
    return _map("silu", x)


def softplus(x: Value) -> Value:
    """``log(1 + e ** x)``."""
    return _map("softplus", x)


def exp(x: Value) -> Value:
    """``e ** x``."""
    return _map("exp", x)


def log(x: Value) -> Value:
    """The natural logarithm."""
    return _map("log", x)


def sigmoid(x: Value) -> Value:
    """``1 / (1 + exp(-x))``."""
    return _map("sigmoid", x)


def tanh(x: Value) -> Value:
    """Hyperbolic tangent."""
    return _map("tanh", x)


def sin(x: Value) -> Value:
    """Sine of radians."""
    return _map("sin", x)


def cos(x: Value) -> Value:
    """Cosine of radians."""
    return _map("cos", x)


def sqrt(x: Value) -> Value:
    """Square root."""
    return _map("sqrt", x)


def rsqrt(x: Value) -> Value:
    """``1 / sqrt(x)``."""
    return _map("rsqrt", x)


def rsqrt0(x: Value) -> Value:
    """``1 / sqrt(x)``, but 0 where ``x <= 0``."""
    return _map("rsqrt0", x)


def step(x: Value) -> Value:
    """1 where ``x > 0``, else 0."""
    return _map("step", x)


def maximum(x: Value, y: Value | float) -> Value:
    """The larger of two values, or of a value and a number, element by element."""
    return _map("clamp_min", x, float(y)) if isinstance(y, int | float) else _map("maximum", x, y)


def minimum(x: Value, y: Value | float) -> Value:
    """The smaller of two values, or of a value and a number, element by element."""
    return _map("clamp_max", x, float(y)) if isinstance(y, int | float) else _map("minimum", x, y)


def outer(x: Value, y: Value) -> Value:
    """All products: (H,) and (K,) give (H, K); per head, (H, K) and (H, D) give (H, K, D)."""
    return _map("outer", x, y)


def dot(x: Value, y: Value) -> Value:
    """Inner product over the last axis: (H, D) with (H, D), or (D,) with (H, D), gives (H,)."""
    if not isinstance(x, Value):
        raise ProgramError(f"dot of {x!r}: give it values of the program")
    return x._trace.emit(Dot(x.name, x._known(y, "dot")), "dot")


def softmax(score: Value, over: Space) -> Value:
    """Softmax of edge scores among the edges that share a node or a (node, edge type) pair."""
    if not isinstance(score, Value):
        raise ProgramError(f"softmax of {score!r}: give it a value of the program")
    return score._trace.emit(Softmax(score.name, over), "softmax")


def _map(fn: str, x: Value, other: Value | float | None = None) -> Value:
    if not isinstance(x, Value):
        raise ProgramError(f"{fn} of {x!r}: give it a value of the program")
    if isinstance(other, float):
        return x.apply(fn, const=other)
    return x.apply(fn) if other is None else x.apply(fn, other)
