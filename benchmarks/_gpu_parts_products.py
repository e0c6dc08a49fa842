"""Products of rows that are picked and weights of their relation, by hand in Triton."""

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["tiles"])
def multiplied(
    x_ptr, w_ptr, ids_ptr, first_ptr, last_ptr, type_ptr, out_ptr, tiles,
    ROWS: tl.constexpr, W: tl.constexpr, PIECE: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """A tile of rows of one relation: x[ids] @ w[relation], PIECE terms of it at a time."""
    tile = tl.program_id(0)
    first, last = tl.load(first_ptr + tile), tl.load(last_ptr + tile)
    w_ptr += tl.load(type_ptr + tile) * W * W
    row, column = first + tl.arange(0, ROWS), tl.arange(0, W)
    here = row < last
    ids = tl.load(ids_ptr + row, mask=here, other=0)
    total = tl.zeros([ROWS, W], tl.float32)
    for k in tl.static_range(0, W, PIECE):
        term = k + tl.arange(0, PIECE)
        rows = tl.load(x_ptr + (ids * W)[:, None] + term[None, :], mask=here[:, None], other=0.0)
        weights = tl.load(w_ptr + (term * W)[:, None] + column[None, :])
        total = tl.dot(rows, weights, total, input_precision=PRECISION)
    tl.store(out_ptr + (row * W)[:, None] + column[None, :], total, mask=here[:, None])


@triton.jit
def nothing(out_ptr):
    """A kernel that does nothing."""
