"""What the functions of a kernel's expressions compute, on whole tensors."""

from __future__ import annotations

import torch

from hetune.variants.program.apply import apply_map


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
    padded = [arg.reshape(*arg.shape, *(1 for _ in range(axes - arg.dim()))) for arg in args]
    return apply_map(fn, padded, const)
