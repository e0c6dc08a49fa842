"""The functions that operators apply to rows, by name."""

from __future__ import annotations

MAP_ARITY = {
    "add": 2,
    "sub": 2,
    "mul": 2,
    "div": 2,
    "maximum": 2,
    "minimum": 2,
    "pow": 2,
    "equal": 2,  # 1 where both are the same, else 0
    "mask": 2,  # the second where the first is > 0, else 0
    "outer": 2,  # (H,) and (K,) -> (H, K), or of each head: (H, K) and (H, D) -> (H, K, D)
    "leaky_relu": 1,  # constant: negative slope
    "elu": 1,  # constant: alpha
    "scale": 1,  # constant: factor
    "shift": 1,  # constant: what is added
    "clamp_min": 1,  # constant: the least value
    "clamp_max": 1,  # constant: the largest value
    "pow_c": 1,  # constant: the exponent
    "relu": 1,
    "gelu": 1,  # exact, by erf
    "silu": 1,
    "softplus": 1,
    "exp": 1,
    "log": 1,
    "sigmoid": 1,
    "tanh": 1,
    "sin": 1,
    "cos": 1,
    "abs": 1,
    "sqrt": 1,
    "rsqrt": 1,
    "rsqrt0": 1,  # 0 where x <= 0
    "square": 1,
    "step": 1,  # 1 where x > 0, else 0
    "reciprocal": 1,
    "one_minus": 1,
}
"""How many operands the functions of `Map` take."""

WITH_CONSTANT = frozenset(
    {"leaky_relu", "elu", "scale", "shift", "clamp_min", "clamp_max", "pow_c"}
)
"""Those that have a constant besides."""

REDUCTIONS = ("sum", "max", "min", "prod")
"""What `Reduce` does with the rows that meet."""

FOLDS = ("sum", "mean", "max", "min")
"""What `Fold` does with the elements of a row's axis."""
