"""Sums of absolute differences of all pairs of rows, in C++ (`absolute_distances.cpp`)."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from hetune.variants.registry import load_packaged

_LANES = 16
_SMALL = 1 << 20
"""Differences up to which torch's routine does it: nothing is compiled for so few."""


def absolute_distances(rows: Tensor, keys: Tensor) -> Tensor:
    """Sums of absolute differences [..., B, count] of [..., B, width] and [..., count, width].

    As `torch.cdist` with p=1, which is ten times slower on a CPU; differentiable once.
    """
    is_native = rows.dtype is torch.float32 and rows.device.type == "cpu"
    if not is_native or rows.shape[-2] * keys.numel() < _SMALL:
        return torch.cdist(rows, keys, p=1)
    found: Tensor = _Distances.apply(rows, keys)  # type: ignore[no-untyped-call]
    return found


class _Distances(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, keys: Tensor) -> Tensor:
        ctx.save_for_backward(rows, keys)
        out = rows.new_empty((*rows.shape[:-1], keys.shape[-2]))
        _call("distances", rows.contiguous(), keys.contiguous(), out)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None]:
        rows, keys = ctx.saved_tensors
        needed = ctx.needs_input_grad
        return (
            _signs(rows, keys, gradient) if needed[0] else None,
            _signs(keys, rows, gradient.mT) if needed[1] else None,
        )


def _signs(rows: Tensor, keys: Tensor, weights: Tensor) -> Tensor:
    """Sums over keys of weights [..., B, count] times the signs of rows - keys."""
    width = rows.shape[-1]
    rows, keys = (functional.pad(x, (0, -width % _LANES)).contiguous() for x in (rows, keys))
    out = torch.empty_like(rows)
    _call("signs", rows, keys, weights.contiguous(), out)
    return out[..., :width]


def _call(name: str, rows: Tensor, keys: Tensor, *others: Tensor) -> None:
    *batches, num_rows, width = rows.shape
    counts = batches[0] if batches else 1, num_rows, keys.shape[-2], width
    tensors = rows, keys, *others
    function = getattr(_library(), f"hetune_{name}")
    function.argtypes = (ctypes.c_void_p,) * len(tensors) + (ctypes.c_int64,) * 5
    function(*(tensor.data_ptr() for tensor in tensors), *counts, torch.get_num_threads())


@cache
def _library() -> ctypes.CDLL:
    what = "distances of rows"
    return load_packaged("hetune.variants.runtime", "absolute_distances.cpp", "distances", what)
