"""precision=tf32 tile_rows=64 tile_columns=64 tile_k=32 nodes=0 edges=4 elements=1024 degree_order=True warps=4 stages=2"""

import triton
import triton.language as tl


@triton.jit
def kernel_0(
    tile_first_ptr,
    tile_last_ptr,
    tile_rows_ptr,
    tile_type_ptr,
    b_src_pair_node_ptr,
    x_ptr,
    w_ptr,
    t_ptr,
):
    """t = x[src] @ w, for every src_pair of group 'b'."""
    tile = tl.program_id(0)
    i = tl.load(tile_first_ptr + tile) + tl.arange(0, 64)
    row_in = i < tl.load(tile_last_ptr + tile)
    row = tl.load(tile_rows_ptr + i, mask=row_in, other=0)
    kind = tl.load(tile_type_ptr + tile)
    column = tl.arange(0, 64)
    source = tl.load(b_src_pair_node_ptr + row, mask=row_in, other=0)
    x_start = x_ptr + source.to(tl.int64) * 63
    w_start = w_ptr + kind.to(tl.int64) * 3969
    total = tl.zeros([64, 64], tl.float32)
    for k_start in range(0, 63, 32):
        k = k_start + tl.arange(0, 32)
        x_tile = tl.load(
            x_start[:, None] + k[None, :],
            mask=row_in[:, None] & (k < 63)[None, :],
            other=0.0,
        )
        w_tile = tl.load(
            w_start + k[:, None] * 63 + column[None, :],
            mask=(k < 63)[:, None] & (column < 63)[None, :],
            other=0.0,
        )
        total = tl.dot(x_tile, w_tile, total, input_precision="tf32")
    out_column = column
    out_place = t_ptr + row.to(tl.int64)[:, None] * 63 + out_column[None, :]
    out_in = row_in[:, None] & (column < 63)[None, :]
    tl.store(out_place, total, mask=out_in)
