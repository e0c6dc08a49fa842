"""What the functions of a kernel's expressions compute, on whole tensors."""

from __future__ import annotations

import torch


def inner(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Dot products over the last axis of [rows, heads, width], or one of both without heads."""
    if x.dim() < y.dim():
        x = x.unsqueeze(1)
    elif y.dim() < x.dim():
        y = y.unsqueeze(1)
    return (x * y).sum(-1)


def apply(fn: str, args: list[torch.Tensor], const: float | None) -> torch.Tensor:
    """An elementwise function of tensors [rows, *shape] with prefix broadcasting."""
    axes = max(arg.dim() for arg in args)
    x, *rest = (arg.reshape(*arg.shape, *(1 for _ in range(axes - arg.dim()))) for arg in args)
    match fn, rest, const:
        case "add", [y], _:
            return x + y
        case "sub", [y], _:
            return x - y
        case "mul", [y], _:
            return x * y
        case "div", [y], _:
            return x / y
        case "max", [y], _:
            return torch.maximum(x, y)
        case "leaky_relu", [], float() | int():
            return torch.where(x > 0, x, x * const)
        case "scale", [], float() | int():
            return x * const
        case "relu", [], _:
            return torch.relu(x)
        case "gelu", [], _:
            return torch.nn.functional.gelu(x)
        case "exp", [], _:
            return torch.exp(x)
        case "sigmoid", [], _:
            return torch.sigmoid(x)
        case "tanh", [], _:
            return torch.tanh(x)
        case "reciprocal", [], _:
            return torch.reciprocal(x)
        case "one_minus", [], _:
            return 1 - x
    raise AssertionError(f"no function {fn!r} of {len(args)} arguments: the launch is not verified")
