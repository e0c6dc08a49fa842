"""precision=bf16 tile_rows=64 tile_columns=64 tile_k=32 nodes=0 edges=4 elements=1024 degree_order=True warps=8 stages=3"""

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["all_node_rows"])
def kernel_0(x_ptr, root_ptr, bias_ptr, y_ptr, all_node_rows):
    """y = x @ root + bias, for every node."""
    row = tl.program_id(0) * 64 + tl.arange(0, 64)
    row_in = row < all_node_rows
    column = tl.arange(0, 64)
    x_start = x_ptr + row.to(tl.int64) * 64
    w_start = root_ptr
    total = tl.zeros([64, 64], tl.float32)
    for k_start in range(0, 64, 32):
        k = k_start + tl.arange(0, 32)
        x_tile = tl.load(x_start[:, None] + k[None, :], mask=row_in[:, None], other=0.0)
        w_tile = tl.load(w_start + k[:, None] * 64 + column[None, :])
        total = tl.dot(x_tile.to(tl.bfloat16), w_tile.to(tl.bfloat16), total)
    out_column = column
    total = total + tl.load(bias_ptr + out_column[None, :])
    out_place = y_ptr + row.to(tl.int64)[:, None] * 64 + out_column[None, :]
    out_in = row_in[:, None]
    tl.store(out_place, total, mask=out_in)


@triton.jit
def kernel_1(
    tile_first_ptr,
    tile_last_ptr,
    tile_rows_ptr,
    tile_type_ptr,
    a_dst_pair_indptr_ptr,
    w_ptr,
    a_src_ptr,
    x_ptr,
    scale_ptr,
    a_dst_pair_node_ptr,
    y_ptr,
):
    """y[dst] += scale * sum(x) @ w, for every dst_pair of group 'a'."""
    tile = tl.program_id(0)
    i = tl.load(tile_first_ptr + tile) + tl.arange(0, 64)
    row_in = i < tl.load(tile_last_ptr + tile)
    row = tl.load(tile_rows_ptr + i, mask=row_in, other=0)
    kind = tl.load(tile_type_ptr + tile)
    column = tl.arange(0, 64)
    begin = tl.load(a_dst_pair_indptr_ptr + row, mask=row_in, other=0)
    end = tl.load(a_dst_pair_indptr_ptr + row + 1, mask=row_in, other=0)
    most = tl.max(end - begin, axis=0)
    w_start = w_ptr + kind.to(tl.int64) * 4096
    total = tl.zeros([64, 64], tl.float32)
    k = tl.arange(0, 64)
    x_tile = tl.zeros([64, 64], tl.float32)
    for step in range(0, most):
        edge = begin + step
        edge_in = edge < end
        source = tl.load(a_src_ptr + edge, mask=edge_in, other=0)
        x_start = x_ptr + source.to(tl.int64) * 64
        x_tile = x_tile + tl.load(
            x_start[:, None] + k[None, :],
            mask=edge_in[:, None],
            other=0.0,
        )
    w_tile = tl.load(w_start + k[:, None] * 64 + column[None, :])
    total = tl.dot(x_tile.to(tl.bfloat16), w_tile.to(tl.bfloat16), total)
    scale = tl.load(scale_ptr + row, mask=row_in, other=0.0)
    total = scale[:, None] * total
    out_column = column
    target = tl.load(a_dst_pair_node_ptr + row, mask=row_in, other=0)
    out_place = y_ptr + target.to(tl.int64)[:, None] * 64 + out_column[None, :]
    out_in = row_in[:, None]
    tl.atomic_add(out_place, total, mask=out_in, sem="relaxed")


@triton.jit(do_not_specialize=["all_node_rows"])
def kernel_2(
    all_degree_order_ptr,
    b_indptr_ptr,
    b_src_pair_of_edge_ptr,
    t_ptr,
    b_position_ptr,
    inv_ptr,
    y_ptr,
    all_node_rows,
):
    """y, for every node."""
    i = tl.program_id(0) * 4 + tl.arange(0, 4)
    n_in = i < all_node_rows
    n = tl.load(all_degree_order_ptr + i, mask=n_in, other=0)
    axis_64 = tl.arange(0, 64)
    acc = tl.full([4, 64], 0.0, tl.float32)
    e_begin = tl.load(b_indptr_ptr + n, mask=n_in, other=0)
    e_end = tl.load(b_indptr_ptr + n + 1, mask=n_in, other=0)
    e_most = tl.max(e_end - e_begin, axis=0)
    for e_step in range(0, e_most, 4):
        e = (e_begin + e_step)[:, None] + tl.arange(0, 4)[None, :]
        e_in = e < e_end[:, None]
        pair = tl.load(b_src_pair_of_edge_ptr + e, mask=e_in, other=0)
        t = tl.load(
            t_ptr + (pair.to(tl.int64) * 64)[:, :, None] + axis_64[None, None, :],
            mask=e_in[:, :, None],
            other=0.0,
        )
        position = tl.load(b_position_ptr + e, mask=e_in, other=0)
        inv = tl.load(inv_ptr + position, mask=e_in, other=0.0)
        m = inv[:, :, None] * t
        acc = acc + tl.sum(tl.where(e_in[:, :, None], m, 0.0), axis=1)
    y_place = y_ptr + (n.to(tl.int64) * 64)[:, None] + axis_64[None, :]
    tl.store(y_place, tl.load(y_place, mask=n_in[:, None]) + acc, mask=n_in[:, None])
