"""precision=ieee tile_rows=64 tile_columns=64 tile_k=32 nodes=1 edges=1 elements=1024 degree_order=False warps=4 stages=2"""

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["all_node_rows"])
def kernel_0(
    all_indptr_ptr,
    all_src_pair_of_edge_ptr,
    s_src_ptr,
    all_dst_pair_of_edge_ptr,
    s_dst_ptr,
    score_ptr,
    alpha_ptr,
    all_node_rows,
):
    """alpha, score, for every node."""
    n = tl.program_id(0) * 1 + tl.arange(0, 1)
    n_in = n < all_node_rows
    axis_2 = tl.arange(0, 2)
    top = tl.full([1, 2], float("-inf"), tl.float32)
    e_begin = tl.load(all_indptr_ptr + n, mask=n_in, other=0)
    e_end = tl.load(all_indptr_ptr + n + 1, mask=n_in, other=0)
    e_most = tl.max(e_end - e_begin, axis=0)
    for e_step in range(0, e_most):
        e = e_begin + e_step
        e_in = e < e_end
        pair = tl.load(all_src_pair_of_edge_ptr + e, mask=e_in, other=0)
        s_src = tl.load(
            s_src_ptr + (pair.to(tl.int64) * 2)[:, None] + axis_2[None, :],
            mask=e_in[:, None],
            other=0.0,
        )
        pair_2 = tl.load(all_dst_pair_of_edge_ptr + e, mask=e_in, other=0)
        s_dst = tl.load(
            s_dst_ptr + (pair_2.to(tl.int64) * 2)[:, None] + axis_2[None, :],
            mask=e_in[:, None],
            other=0.0,
        )
        sum = s_src + s_dst
        s = tl.where(sum > 0.0, sum, sum * 0.2)
        tl.store(
            score_ptr + (e.to(tl.int64) * 2)[:, None] + axis_2[None, :],
            s,
            mask=e_in[:, None],
        )
        top = tl.maximum(top, tl.where(e_in[:, None], s, float("-inf")))
    total = tl.full([1, 2], 0.0, tl.float32)
    tl.debug_barrier()
    for e_step_2 in range(0, e_most):
        e_2 = e_begin + e_step_2
        e_2_in = e_2 < e_end
        score = tl.load(
            score_ptr + (e_2.to(tl.int64) * 2)[:, None] + axis_2[None, :],
            mask=e_2_in[:, None],
            other=0.0,
        )
        shifted = score - top
        p = tl.exp(shifted)
        tl.debug_barrier()
        tl.store(
            score_ptr + (e_2.to(tl.int64) * 2)[:, None] + axis_2[None, :],
            p,
            mask=e_2_in[:, None],
        )
        total = total + tl.where(e_2_in[:, None], p, 0.0)
    factor = 1.0 / total
    tl.debug_barrier()
    for e_step_3 in range(0, e_most):
        e_3 = e_begin + e_step_3
        e_3_in = e_3 < e_end
        score_2 = tl.load(
            score_ptr + (e_3.to(tl.int64) * 2)[:, None] + axis_2[None, :],
            mask=e_3_in[:, None],
            other=0.0,
        )
        share = score_2 * factor
        tl.store(
            alpha_ptr + (e_3.to(tl.int64) * 2)[:, None] + axis_2[None, :],
            share,
            mask=e_3_in[:, None],
        )


@triton.jit
def kernel_1(
    tile_first_ptr,
    tile_last_ptr,
    tile_rows_ptr,
    tile_type_ptr,
    all_dst_pair_indptr_ptr,
    w_ptr,
    all_src_ptr,
    x_ptr,
    alpha_ptr,
    all_dst_pair_node_ptr,
    y_ptr,
):
    """y[dst] += sum(alpha * x) @ w, for every dst_pair."""
    tile = tl.program_id(0)
    i = tl.load(tile_first_ptr + tile) + tl.arange(0, 64)
    row_in = i < tl.load(tile_last_ptr + tile)
    row = tl.load(tile_rows_ptr + i, mask=row_in, other=0)
    kind = tl.load(tile_type_ptr + tile)
    column = tl.arange(0, 64)
    head = tl.program_id(2)
    begin = tl.load(all_dst_pair_indptr_ptr + row, mask=row_in, other=0)
    end = tl.load(all_dst_pair_indptr_ptr + row + 1, mask=row_in, other=0)
    most = tl.max(end - begin, axis=0)
    w_start = w_ptr + kind.to(tl.int64) * 8192 + head * 4096
    total = tl.zeros([64, 64], tl.float32)
    k = tl.arange(0, 64)
    x_tile = tl.zeros([64, 64], tl.float32)
    for step in range(0, most):
        edge = begin + step
        edge_in = edge < end
        position = edge
        source = tl.load(all_src_ptr + edge, mask=edge_in, other=0)
        x_start = x_ptr + source.to(tl.int64) * 128 + head * 64
        share = tl.load(alpha_ptr + position.to(tl.int64) * 2 + head, mask=edge_in, other=0.0)
        x_tile = x_tile + share[:, None] * tl.load(
            x_start[:, None] + k[None, :],
            mask=edge_in[:, None],
            other=0.0,
        )
    w_tile = tl.load(w_start + k[:, None] * 64 + column[None, :])
    total = tl.dot(x_tile, w_tile, total, input_precision="ieee")
    out_column = head * 64 + column
    target = tl.load(all_dst_pair_node_ptr + row, mask=row_in, other=0)
    out_place = y_ptr + target.to(tl.int64)[:, None] * 128 + out_column[None, :]
    out_in = row_in[:, None]
    tl.atomic_add(out_place, total, mask=out_in, sem="relaxed")
