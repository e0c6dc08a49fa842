"""precision=ieee tile_rows=64 tile_columns=64 tile_k=32 nodes=0 edges=4 elements=1024 degree_order=True warps=4 stages=2"""

import triton
import triton.language as tl


@triton.jit
def gelu(x):
    """x times the share of a normal distribution that lies below it."""
    return 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))


@triton.jit(do_not_specialize=["all_node_rows"])
def kernel_0(
    all_degree_order_ptr,
    all_node_dst_pair_indptr_ptr,
    q_ptr,
    all_dst_pair_indptr_ptr,
    all_src_ptr,
    k_ptr,
    score_ptr,
    all_indptr_ptr,
    v_ptr,
    x_ptr,
    node_types_ptr,
    skip_ptr,
    y_ptr,
    all_node_rows,
):
    """score, y, for every node."""
    i = tl.program_id(0) * 2 + tl.arange(0, 2)
    n_in = i < all_node_rows
    n = tl.load(all_degree_order_ptr + i, mask=n_in, other=0)
    axis_64 = tl.arange(0, 64)
    axis_2 = tl.arange(0, 2)
    top = tl.full([2, 2], float("-inf"), tl.float32)
    p_begin = tl.load(all_node_dst_pair_indptr_ptr + n, mask=n_in, other=0)
    p_end = tl.load(all_node_dst_pair_indptr_ptr + n + 1, mask=n_in, other=0)
    p_most = tl.max(p_end - p_begin, axis=0)
    for p_step in range(0, p_most):
        p = p_begin + p_step
        p_in = p < p_end
        q = tl.load(
            q_ptr + (p.to(tl.int64) * 128)[:, None, None] + (axis_2 * 64)[None, :, None] + axis_64[None, None, :],
            mask=p_in[:, None, None],
            other=0.0,
        )
        e_begin = tl.load(all_dst_pair_indptr_ptr + p, mask=p_in, other=0)
        e_end = tl.load(all_dst_pair_indptr_ptr + p + 1, mask=p_in, other=0)
        e_most = tl.max(e_end - e_begin, axis=0)
        for e_step in range(0, e_most, 4):
            e = (e_begin + e_step)[:, None] + tl.arange(0, 4)[None, :]
            e_in = e < e_end[:, None]
            src = tl.load(all_src_ptr + e, mask=e_in, other=0)
            k = tl.load(
                k_ptr + (src.to(tl.int64) * 128)[:, :, None, None] + (axis_2 * 64)[None, None, :, None] + axis_64[None, None, None, :],
                mask=e_in[:, :, None, None],
                other=0.0,
            )
            s = tl.sum(k * q[:, None, :, :], axis=3)
            tl.store(
                score_ptr + (e.to(tl.int64) * 2)[:, :, None] + axis_2[None, None, :],
                s,
                mask=e_in[:, :, None],
            )
            top = tl.maximum(top, tl.max(tl.where(e_in[:, :, None], s, float("-inf")), axis=1))
    total = tl.full([2, 2], 0.0, tl.float32)
    acc = tl.full([2, 2, 64], 0.0, tl.float32)
    e_begin_2 = tl.load(all_indptr_ptr + n, mask=n_in, other=0)
    e_end_2 = tl.load(all_indptr_ptr + n + 1, mask=n_in, other=0)
    e_most_2 = tl.max(e_end_2 - e_begin_2, axis=0)
    tl.debug_barrier()
    for e_step_2 in range(0, e_most_2, 4):
        e_2 = (e_begin_2 + e_step_2)[:, None] + tl.arange(0, 4)[None, :]
        e_2_in = e_2 < e_end_2[:, None]
        score = tl.load(
            score_ptr + (e_2.to(tl.int64) * 2)[:, :, None] + axis_2[None, None, :],
            mask=e_2_in[:, :, None],
            other=0.0,
        )
        shifted = score - top[:, None, :]
        p_2 = tl.exp(shifted)
        total = total + tl.sum(tl.where(e_2_in[:, :, None], p_2, 0.0), axis=1)
        src_2 = tl.load(all_src_ptr + e_2, mask=e_2_in, other=0)
        v = tl.load(
            v_ptr + (src_2.to(tl.int64) * 128)[:, :, None, None] + (axis_2 * 64)[None, None, :, None] + axis_64[None, None, None, :],
            mask=e_2_in[:, :, None, None],
            other=0.0,
        )
        message = p_2[:, :, :, None] * v
        acc = acc + tl.sum(tl.where(e_2_in[:, :, None, None], message, 0.0), axis=1)
    one = total + total
    x = tl.load(
        x_ptr + (n.to(tl.int64) * 128)[:, None, None] + (axis_2 * 64)[None, :, None] + axis_64[None, None, :],
        mask=n_in[:, None, None],
        other=0.0,
    )
    ntype = tl.load(node_types_ptr + n, mask=n_in, other=0)
    skip = tl.load(skip_ptr + ntype, mask=n_in, other=0.0)
    open = tl.sigmoid(skip)
    closed = 1.0 - open
    active = gelu(acc)
    new = open[:, None, None] * active
    kept = closed[:, None, None] * x
    both = new + kept
    tl.store(
        y_ptr + (n.to(tl.int64) * 128)[:, None, None] + (axis_2 * 64)[None, :, None] + axis_64[None, None, :],
        both,
        mask=n_in[:, None, None],
    )
