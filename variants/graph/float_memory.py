"""Memory for float32 numbers on a CPU."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

HUGE_PAGE = 1 << 21
"""Bytes; blocks that large ask for such pages, which fault 512x less."""
_CACHE_LINE = 64
ELEMENT = 4
"""Bytes of a float32."""


def allocate(elements: int) -> Tensor:
    """Uninitialised float32 memory; large blocks ask for huge pages, which fault 512x less."""
    # A tensor made in inference mode could not be written outside of it.
    with torch.inference_mode(False):
        if elements * ELEMENT < HUGE_PAGE:
            return torch.empty(elements, dtype=torch.float32, device="cpu")
        return torch.from_numpy(aligned(elements))


def aligned(elements: int, make: Callable[..., np.ndarray] = np.empty) -> np.ndarray:
    """Memory from the start of a huge page, or else a cache line: vectors then never straddle."""
    alignment = HUGE_PAGE if elements * ELEMENT >= 4 * HUGE_PAGE else _CACHE_LINE
    block = make(elements + alignment // ELEMENT, dtype=np.float32)
    start = -block.ctypes.data % alignment // ELEMENT
    return block[start : start + elements]


def zeros_like_rows(count: int, rows: Tensor) -> Tensor:
    """Zeros [count, *row shape], on the device of some rows and of their dtype."""
    shape = (count, *rows.shape[1:])
    elements = math.prod(shape)
    if rows.device.type != "cpu" or rows.dtype is not torch.float32:
        return rows.new_zeros(shape)
    if elements * ELEMENT < HUGE_PAGE:
        return torch.zeros(shape, dtype=torch.float32, device="cpu")
    with torch.inference_mode(False):
        return torch.from_numpy(aligned(elements, np.zeros)).view(shape)
