"""How fast a card picks rows: kernels that do nothing else, as limits for those that do more."""

from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCKS = (16, 32, 64, 128)
"""Rows of a program."""
_WARPS = 4


@triton.jit
def _copied(table_ptr, ids_ptr, out_ptr, rows, BLOCK: tl.constexpr, WIDTH: tl.constexpr):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column = tl.arange(0, WIDTH)
    ids = tl.load(ids_ptr + row, mask=row < rows, other=0).to(tl.int64)
    here = (row < rows)[:, None]
    values = tl.load(table_ptr + ids[:, None] * WIDTH + column[None, :], mask=here, other=0.0)
    tl.store(out_ptr + row.to(tl.int64)[:, None] * WIDTH + column[None, :], values, mask=here)


@triton.jit
def _summed(table_ptr, ids_ptr, out_ptr, rows, BLOCK: tl.constexpr, WIDTH: tl.constexpr):
    program = tl.program_id(0)
    row = program * BLOCK + tl.arange(0, BLOCK)
    column = tl.arange(0, WIDTH)
    ids = tl.load(ids_ptr + row, mask=row < rows, other=0).to(tl.int64)
    here = (row < rows)[:, None]
    values = tl.load(table_ptr + ids[:, None] * WIDTH + column[None, :], mask=here, other=0.0)
    tl.store(out_ptr + program.to(tl.int64) * WIDTH + column, tl.sum(values, axis=0))


def copies(table: Tensor, ids: Tensor) -> dict[str, Callable[[], Any]]:
    """Ways of writing table[ids].

    Args:
        table: float32 [N, W], W a power of two.
        ids: int32 [M].
    """
    out = table.new_empty(ids.numel(), table.shape[1])
    wide = ids.long()
    ways = _ways(_copied, table, ids, out)
    return {**ways, "index_select": lambda: torch.index_select(table, 0, wide, out=out)}


def sums(table: Tensor, ids: Tensor) -> dict[str, Callable[[], Any]]:
    """Ways of adding up table[ids], so many in a row as a program has."""
    out = table.new_empty(-(-ids.numel() // min(BLOCKS)), table.shape[1])
    return _ways(_summed, table, ids, out)


def _ways(kernel: Any, table: Tensor, ids: Tensor, out: Tensor) -> dict[str, Callable[[], Any]]:
    def way(block: int) -> Callable[[], Any]:
        grid = (-(-ids.numel() // block),)
        width = table.shape[1]
        return lambda: kernel[grid](
            table, ids, out, ids.numel(), BLOCK=block, WIDTH=width, num_warps=_WARPS
        )

    return {f"{block} rows a program": way(block) for block in BLOCKS}
