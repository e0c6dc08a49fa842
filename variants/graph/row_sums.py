"""Sums of rows by numbers, on a CPU in C++ (`row_sums.cpp`)."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

from torch import Tensor

from hetune.variants.graph.lazy_tensors import materialized
from hetune.variants.graph.threads import kernel_threads
from hetune.variants.registry import load_packaged


def add_rows(out: Tensor, ids: Tensor, rows: Tensor, factor: float) -> None:
    """Adds multiples of rows to those of their numbers, one after the other.

    Args:
        out: Float32 [count, *row shape], contiguous.
        ids: Int32 [n], each below count.
        rows: Float32 [n, *row shape], on the same device.
        factor: What rows are multiplied by.
    """
    if out.device.type != "cpu":
        out.index_add_(0, ids, rows, alpha=factor)
        return
    if rows.numel():
        ids, rows = ids.contiguous(), materialized(rows)
        pointers = out.data_ptr(), rows[0].numel(), ids.data_ptr(), rows.data_ptr()
        _function()(*pointers, len(rows), factor, kernel_threads())


@cache
def _function() -> Any:
    library = load_packaged("hetune.variants.graph", "row_sums.cpp", "row-sums", "sums of rows")
    function = library.hetune_add_rows
    pointer, count = ctypes.c_void_p, ctypes.c_int64
    function.argtypes = pointer, count, pointer, pointer, count, ctypes.c_float, count
    function.restype = None
    return function
