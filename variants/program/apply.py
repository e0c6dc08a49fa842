"""What the functions of `Map` and `Fold` compute, on whole tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MappingProxyType

import torch
from torch import Tensor
from torch.nn import functional


def apply_map(fn: str, args: Sequence[Tensor], const: float | None) -> Tensor:
    """A function of ``functions.MAP_ARITY`` of tensors that broadcast as torch's do."""
    if fn in _BINARY:
        x, y = args
        return _BINARY[fn](x, y)
    (x,) = args
    return _UNARY[fn](x) if const is None else _WITH_CONSTANT[fn](x, const)


def fold(fn: str, x: Tensor, axis: int) -> Tensor:
    """A function of ``functions.FOLDS`` over an axis, which goes."""
    return _FOLDS[fn](x, axis)


def _outer(x: Tensor, y: Tensor) -> Tensor:
    return x.unsqueeze(-1) * y.unsqueeze(-2)


def _mask(x: Tensor, y: Tensor) -> Tensor:
    return torch.where(x > 0, y, 0.0)


def _rsqrt0(x: Tensor) -> Tensor:
    masked = x <= 0  # where it is masked twice, its gradient is 0, too
    return x.masked_fill(masked, 1).rsqrt().masked_fill(masked, 0)


_BINARY: MappingProxyType[str, Callable[[Tensor, Tensor], Tensor]] = MappingProxyType(
    {
        "add": torch.add,
        "sub": torch.sub,
        "mul": torch.mul,
        "div": torch.div,
        "maximum": torch.maximum,
        "minimum": torch.minimum,
        "pow": torch.pow,
        "equal": lambda x, y: (x == y).to(x.dtype),
        "mask": _mask,
        "outer": _outer,
    }
)
_WITH_CONSTANT: MappingProxyType[str, Callable[[Tensor, float], Tensor]] = MappingProxyType(
    {
        "leaky_relu": functional.leaky_relu,
        "elu": functional.elu,
        "scale": lambda x, factor: x * factor,
        "shift": lambda x, number: x + number,
        "clamp_min": lambda x, least: x.clamp_min(least),
        "clamp_max": lambda x, most: x.clamp_max(most),
        "pow_c": lambda x, exponent: x.pow(exponent),
    }
)
_UNARY: MappingProxyType[str, Callable[[Tensor], Tensor]] = MappingProxyType(
    {
        "relu": torch.relu,
        "gelu": functional.gelu,
        "silu": functional.silu,
        "softplus": functional.softplus,
        "exp": torch.exp,
        "log": torch.log,
        "sigmoid": torch.sigmoid,
        "tanh": torch.tanh,
        "sin": torch.sin,
        "cos": torch.cos,
        "abs": torch.abs,
        "sqrt": torch.sqrt,
        "rsqrt": torch.rsqrt,
        "rsqrt0": _rsqrt0,
        "square": torch.square,
        "step": lambda x: (x > 0).to(x.dtype),
        "reciprocal": torch.reciprocal,
        "one_minus": lambda x: 1 - x,
    }
)
_FOLDS: MappingProxyType[str, Callable[[Tensor, int], Tensor]] = MappingProxyType(
    {
        "sum": lambda x, axis: x.sum(axis),
        "mean": lambda x, axis: x.mean(axis),
        "max": lambda x, axis: x.amax(axis),
        "min": lambda x, axis: x.amin(axis),
    }
)
