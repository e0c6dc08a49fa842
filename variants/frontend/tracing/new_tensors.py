"""Functions that make new tensors: of another one's shape and dtype, or in float64."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

ShapeOf = Callable[[Tensor], torch.Size]
"""Gives a tensor's shape."""


def _new(make: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def made(counted_shape: ShapeOf, of: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return make(*args, **{"dtype": of.dtype, "device": of.device, **kwargs})

    return made


def _like(make: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def made(counted_shape: ShapeOf, of: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        kwargs.pop("memory_format", None)
        kwargs = {"dtype": of.dtype, "device": of.device, **kwargs}
        return make(counted_shape(of), *args, **kwargs)

    return made


def in_doubles(func: Callable[..., Any], args: Any, kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
    """A call's keywords, with float64 where it makes new floats and names no dtype.

    Args:
        func: What is called.
        args: With these.
        kwargs: And these.
    """
    fill = kwargs.get("fill_value", args[-1] if args else None)
    is_new = func in _MAKING or (func is torch.full and isinstance(fill, float))
    return {**kwargs, "dtype": torch.float64} if is_new and not kwargs.get("dtype") else kwargs


_MAKING = (torch.zeros, torch.ones, torch.empty)
LIKE: dict[str, Callable[..., Tensor]] = {
    "new_zeros": _new(torch.zeros),
    "new_ones": _new(torch.ones),
    "new_empty": _new(torch.zeros),
    "new_full": _new(torch.full),
    "new_tensor": _new(torch.tensor),
    "zeros_like": _like(torch.zeros),
    "ones_like": _like(torch.ones),
    "full_like": _like(torch.full),
    "empty_like": _like(torch.zeros),
}
"""Functions that read a tensor's shape and dtype only."""
