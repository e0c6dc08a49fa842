"""precision=ieee tile_rows=64 tile_columns=64 tile_k=32 nodes=0 edges=4 elements=1024 degree_order=True warps=4 stages=2"""

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["all_src_pair_rows"])
def kernel_0(all_src_pair_node_ptr, x_ptr, all_src_pair_etype_ptr, a_ptr, s_ptr, all_src_pair_rows):
    """s, for every src_pair."""
    p = tl.program_id(0) * 8 + tl.arange(0, 8)
    p_in = p < all_src_pair_rows
    axis_64 = tl.arange(0, 64)
    axis_2 = tl.arange(0, 2)
    src = tl.load(all_src_pair_node_ptr + p, mask=p_in, other=0)
    x = tl.load(
        x_ptr + (src.to(tl.int64) * 64)[:, None] + axis_64[None, :],
        mask=p_in[:, None],
        other=0.0,
    )
    etype = tl.load(all_src_pair_etype_ptr + p, mask=p_in, other=0)
    a = tl.load(
        a_ptr + (etype.to(tl.int64) * 128)[:, None, None] + (axis_2 * 64)[None, :, None] + axis_64[None, None, :],
        mask=p_in[:, None, None],
        other=0.0,
    )
    score = tl.sum(a * x[:, None, :], axis=2)
    tl.store(
        s_ptr + (p.to(tl.int64) * 2)[:, None] + axis_2[None, :],
        score,
        mask=p_in[:, None],
    )
