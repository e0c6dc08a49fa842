"""Rows weighted by a softmax over parts of edges, by hand in Triton: what `gpu_parts.py` tries.

Each part keeps a maximum, the sum of its exponentials below that, and the sum of rows that they
weight. Whole rows are divided at the end; partial ones are joined by the next level, where a
partial row's maximum is its score.
"""

import triton
import triton.language as tl

_LEAST = tl.constexpr(-3.0e38)


@triton.jit
def _step(
    q, k_ptr, v_ptr, src_ptr, top_ptr, mass_ptr, begin, length, step, top, mass, total,
    U: tl.constexpr, W: tl.constexpr, GATHER: tl.constexpr,
):  # fmt: skip
    edge, column = step + tl.arange(0, U), tl.arange(0, W)
    live = edge[:, None] < length[None, :]
    at = begin[None, :] + edge[:, None]
    if GATHER:
        at = tl.load(src_ptr + at, mask=live, other=0)
    place = (at * W)[:, :, None] + column[None, None, :]
    place = tl.max_contiguous(place, [1, 2, W])  # as in `_gpu_parts_triton`
    values = tl.load(v_ptr + place, mask=live[:, :, None], other=0.0)
    if GATHER:
        keys = tl.load(k_ptr + place, mask=live[:, :, None], other=0.0)
        score = tl.where(live, tl.sum(keys * q[None, :, :], axis=2), _LEAST)
    else:
        score = tl.load(top_ptr + at, mask=live, other=_LEAST)
    highest = tl.maximum(top, tl.max(score, axis=0))
    # Before the first edge both are the least, and there is nothing to shrink.
    shrink = tl.exp(top - highest)
    power = tl.where(live, tl.exp(score - highest[None, :]), 0.0)
    if GATHER:
        mass = mass * shrink + tl.sum(power, axis=0)
    else:
        masses = tl.load(mass_ptr + at, mask=live, other=0.0)
        mass = mass * shrink + tl.sum(power * masses, axis=0)
    total = total * shrink[:, None] + tl.sum(values * power[:, :, None], axis=0)
    return highest, mass, total


@triton.jit
def _attended_of(
    q_ptr, k_ptr, v_ptr, top_ptr, mass_ptr, src_ptr, begin_ptr, length_ptr, row_ptr, slot_ptr,
    out_ptr, carry_ptr, carry_top_ptr, carry_mass_ptr, first, last, most,
    U: tl.constexpr, P: tl.constexpr, W: tl.constexpr,
    GATHER: tl.constexpr, STAGES: tl.constexpr, LOOP: tl.constexpr,
):  # fmt: skip
    part = first + tl.arange(0, P)
    here = part < last
    begin = tl.load(begin_ptr + part, mask=here, other=0)
    length = tl.load(length_ptr + part, mask=here, other=0)
    row = tl.load(row_ptr + part, mask=here, other=0)
    slot = tl.load(slot_ptr + part, mask=here, other=0)
    column = tl.arange(0, W)
    total = tl.zeros([P, W], tl.float32)
    top = tl.full([P], _LEAST, tl.float32)
    mass = tl.zeros([P], tl.float32)
    q = total
    if GATHER:
        q = tl.load(q_ptr + (row * W)[:, None] + column[None, :], mask=here[:, None], other=0.0)
    if LOOP:
        for step in tl.range(0, most, U, num_stages=STAGES):
            top, mass, total = _step(q, k_ptr, v_ptr, src_ptr, top_ptr, mass_ptr, begin, length,
                                     step, top, mass, total, U, W, GATHER)  # fmt: skip
    else:
        top, mass, total = _step(q, k_ptr, v_ptr, src_ptr, top_ptr, mass_ptr, begin, length,
                                 0, top, mass, total, U, W, GATHER)  # fmt: skip
    whole, partial = here & (slot < 0), here & (slot >= 0)
    share = 1.0 / tl.where(mass > 0.0, mass, 1.0)
    done = total * share[:, None]
    tl.store(out_ptr + (row * W)[:, None] + column[None, :], done, mask=whole[:, None])
    tl.store(carry_ptr + (slot * W)[:, None] + column[None, :], total, mask=partial[:, None])
    tl.store(carry_top_ptr + slot, top, mask=partial)
    tl.store(carry_mass_ptr + slot, mass, mask=partial)


@triton.jit(do_not_specialize=["programs"])
def attended(
    q_ptr, k_ptr, v_ptr, top_ptr, mass_ptr, src_ptr, begin_ptr, length_ptr, row_ptr, slot_ptr,
    first_ptr, most_ptr, out_ptr, carry_ptr, carry_top_ptr, carry_mass_ptr, programs,
    U: tl.constexpr, P: tl.constexpr, W: tl.constexpr,
    GATHER: tl.constexpr, STAGES: tl.constexpr, SHORT: tl.constexpr,
):  # fmt: skip
    """A program's parts: [U, P, W] keys and values at a time; of short ones more parts."""
    program = tl.program_id(0)
    first, last = tl.load(first_ptr + program), tl.load(first_ptr + program + 1)
    most = tl.load(most_ptr + program)
    if SHORT:
        if most <= 1:
            _attended_of(q_ptr, k_ptr, v_ptr, top_ptr, mass_ptr, src_ptr, begin_ptr, length_ptr,
                         row_ptr, slot_ptr, out_ptr, carry_ptr, carry_top_ptr, carry_mass_ptr,
                         first, last, most, 1, U * P, W, GATHER, STAGES, False)  # fmt: skip
        elif most <= 2:
            _attended_of(q_ptr, k_ptr, v_ptr, top_ptr, mass_ptr, src_ptr, begin_ptr, length_ptr,
                         row_ptr, slot_ptr, out_ptr, carry_ptr, carry_top_ptr, carry_mass_ptr,
                         first, last, most, 2, U * P // 2, W, GATHER, STAGES, False)  # fmt: skip
        elif most <= 4:
            _attended_of(q_ptr, k_ptr, v_ptr, top_ptr, mass_ptr, src_ptr, begin_ptr, length_ptr,
                         row_ptr, slot_ptr, out_ptr, carry_ptr, carry_top_ptr, carry_mass_ptr,
                         first, last, most, 4, U * P // 4, W, GATHER, STAGES, False)  # fmt: skip
        else:
            _attended_of(q_ptr, k_ptr, v_ptr, top_ptr, mass_ptr, src_ptr, begin_ptr, length_ptr,
                         row_ptr, slot_ptr, out_ptr, carry_ptr, carry_top_ptr, carry_mass_ptr,
                         first, last, most, U, P, W, GATHER, STAGES, True)  # fmt: skip
    else:
        _attended_of(q_ptr, k_ptr, v_ptr, top_ptr, mass_ptr, src_ptr, begin_ptr, length_ptr,
                     row_ptr, slot_ptr, out_ptr, carry_ptr, carry_top_ptr, carry_mass_ptr,
                     first, last, most, U, P, W, GATHER, STAGES, True)  # fmt: skip
