"""Sums of rows over parts of edges, by hand in Triton: what `gpu_parts.py` tries.

Edges are the first axis of every tile, and a thread has all edges of its columns, so that it adds
in its registers. Lanes and warps share out the axes with the longest runs of neighbours first; of
those that have none, Triton 3.6 begins with the first axis and 3.9 with the last one. So the second
is said to have runs of two (`max_contiguous`). How wide loads are depends on the last one alone.
`src` is where a part's rows lie; the next levels' are partial rows, side by side.
"""

import triton
import triton.language as tl


@triton.jit
def _sum_of(
    x_ptr, src_ptr, begin_ptr, length_ptr, row_ptr, slot_ptr, out_ptr, carry_ptr,
    first, last, most,
    U: tl.constexpr, P: tl.constexpr, W: tl.constexpr,
    GATHER: tl.constexpr, STAGES: tl.constexpr, LOOP: tl.constexpr, STREAM: tl.constexpr,
):  # fmt: skip
    load: tl.constexpr = ".cg" if STREAM else ""
    store: tl.constexpr = ".cs" if STREAM else ""
    part = first + tl.arange(0, P)
    here = part < last
    begin = tl.load(begin_ptr + part, mask=here, other=0)
    length = tl.load(length_ptr + part, mask=here, other=0)
    column, edge = tl.arange(0, W), tl.arange(0, U)
    total = tl.zeros([P, W], tl.float32)
    if LOOP and STAGES == 0:
        live = edge[:, None] < length[None, :]
        at = tl.load(src_ptr + begin[None, :] + edge[:, None], mask=live, other=0)
        for step in range(0, most, U):
            place = (at * W)[:, :, None] + column[None, None, :]
            place = tl.max_contiguous(place, [1, 2, W])
            rows = tl.load(x_ptr + place, mask=live[:, :, None], other=0.0, cache_modifier=load)
            behind = (step + U + edge)[:, None]
            live = behind < length[None, :]
            at = tl.load(src_ptr + begin[None, :] + behind, mask=live, other=0)
            total += tl.sum(rows, axis=0)
    elif LOOP:
        for step in tl.range(0, most, U, num_stages=STAGES):
            live = (step + edge)[:, None] < length[None, :]
            at = begin[None, :] + (step + edge)[:, None]
            if GATHER:
                at = tl.load(src_ptr + at, mask=live, other=0)
            place = (at * W)[:, :, None] + column[None, None, :]
            place = tl.max_contiguous(place, [1, 2, W])
            rows = tl.load(x_ptr + place, mask=live[:, :, None], other=0.0, cache_modifier=load)
            total += tl.sum(rows, axis=0)
    else:
        live = edge[:, None] < length[None, :]
        at = begin[None, :] + edge[:, None]
        if GATHER:
            at = tl.load(src_ptr + at, mask=live, other=0)
        place = (at * W)[:, :, None] + column[None, None, :]
        place = tl.max_contiguous(place, [1, 2, W])
        rows = tl.load(x_ptr + place, mask=live[:, :, None], other=0.0, cache_modifier=load)
        total += tl.sum(rows, axis=0)
    row = tl.load(row_ptr + part, mask=here, other=0)
    slot = tl.load(slot_ptr + part, mask=here, other=0)
    whole, partial = (here & (slot < 0))[:, None], (here & (slot >= 0))[:, None]
    out_ptr += (row * W)[:, None] + column[None, :]
    tl.store(out_ptr, total, mask=whole, cache_modifier=store)
    tl.store(carry_ptr + (slot * W)[:, None] + column[None, :], total, mask=partial)


@triton.jit(do_not_specialize=["programs"])
def summed(
    x_ptr, src_ptr, begin_ptr, length_ptr, row_ptr, slot_ptr, first_ptr, most_ptr,
    out_ptr, carry_ptr, programs,
    U: tl.constexpr, P: tl.constexpr, W: tl.constexpr,
    GATHER: tl.constexpr, STAGES: tl.constexpr, SHORT: tl.constexpr, STREAM: tl.constexpr,
):  # fmt: skip
    """A program's parts: [U, P, W] at a time; of short ones more parts, of as many terms.

    With STREAM rows pass by the L1 cache, and the result leaves the L2 cache first. STAGES are of
    Triton's pipeline; with 0 the next step's sources are loaded before this one's rows are added.
    """
    program = tl.program_id(0)
    first, last = tl.load(first_ptr + program), tl.load(first_ptr + program + 1)
    most = tl.load(most_ptr + program)
    if SHORT:
        if most <= 1:
            _sum_of(x_ptr, src_ptr, begin_ptr, length_ptr, row_ptr, slot_ptr, out_ptr, carry_ptr,
                    first, last, most, 1, U * P, W, GATHER, STAGES, False, STREAM)  # fmt: skip
        elif most <= 2:
            _sum_of(x_ptr, src_ptr, begin_ptr, length_ptr, row_ptr, slot_ptr, out_ptr, carry_ptr,
                    first, last, most, 2, U * P // 2, W, GATHER, STAGES, False, STREAM)  # fmt: skip
        elif most <= 4:
            _sum_of(x_ptr, src_ptr, begin_ptr, length_ptr, row_ptr, slot_ptr, out_ptr, carry_ptr,
                    first, last, most, 4, U * P // 4, W, GATHER, STAGES, False, STREAM)  # fmt: skip
        else:
            _sum_of(x_ptr, src_ptr, begin_ptr, length_ptr, row_ptr, slot_ptr, out_ptr, carry_ptr,
                    first, last, most, U, P, W, GATHER, STAGES, True, STREAM)  # fmt: skip
    else:
        _sum_of(x_ptr, src_ptr, begin_ptr, length_ptr, row_ptr, slot_ptr, out_ptr, carry_ptr,
                first, last, most, U, P, W, GATHER, STAGES, True, STREAM)  # fmt: skip
