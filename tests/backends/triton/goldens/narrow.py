"""precision=ieee tile_rows=64 tile_columns=64 tile_k=32 nodes=0 edges=4 elements=1024 degree_order=True warps=4 stages=2"""

import triton
import triton.language as tl


@triton.jit
def kernel_0(
    tile_first_ptr,
    tile_last_ptr,
    tile_rows_ptr,
    tile_type_ptr,
    x_ptr,
    w_ptr,
    bias_ptr,
    node_types_ptr,
    y_ptr,
):
    """y = x @ w + bias, for every node."""
    tile = tl.program_id(0)
    i = tl.load(tile_first_ptr + tile) + tl.arange(0, 64)
    row_in = i < tl.load(tile_last_ptr + tile)
    row = tl.load(tile_rows_ptr + i, mask=row_in, other=0)
    kind = tl.load(tile_type_ptr + tile)
    column = tl.arange(0, 16)
    head = tl.program_id(2)
    x_start = x_ptr + row.to(tl.int64) * 128 + head * 64
    w_start = w_ptr + kind.to(tl.int64) * 384 + head * 192
    total = tl.zeros([64, 16], tl.float32)
    for k_start in range(0, 64, 32):
        k = k_start + tl.arange(0, 32)
        x_tile = tl.load(x_start[:, None] + k[None, :], mask=row_in[:, None], other=0.0)
        w_tile = tl.load(
            w_start + k[:, None] * 3 + column[None, :],
            mask=(column < 3)[None, :],
            other=0.0,
        )
        total = tl.dot(x_tile, w_tile, total, input_precision="ieee")
    out_column = head * 3 + column
    total = total + tl.load(
        bias_ptr + out_column[None, :] + tl.load(node_types_ptr + row, mask=row_in, other=0)[:, None] * 6,
        mask=row_in[:, None] & (column < 3)[None, :],
        other=0.0,
    )
    out_place = y_ptr + row.to(tl.int64)[:, None] * 6 + out_column[None, :]
    out_in = row_in[:, None] & (column < 3)[None, :]
    tl.store(out_place, total, mask=out_in)
