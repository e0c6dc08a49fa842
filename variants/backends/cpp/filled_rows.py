"""Output rows of a Gemm for the nodes that it leaves out: what a zero operand gives."""

from __future__ import annotations

from hetune.variants.backends.cpp.abi import Arguments
from hetune.variants.backends.cpp.operand import LINE
from hetune.variants.backends.cpp.rows import block_range
from hetune.variants.backends.cpp.tail import Tail
from hetune.variants.backends.cpp.target import Assign, Comment, Declare, Do, For, If, Statement
from hetune.variants.kernel.nodes import Element, Gemm, Launch, Schedule
from hetune.variants.program.nodes import End, Space


def filled_rows(
    gemm: Gemm, tail: Tail | None, *, launch: Launch, schedule: Schedule, args: Arguments
) -> list[Statement]:
    """Writes the rows of a block's nodes that have no edge at the end that counts."""
    first, stop = block_range(args, gemm.rows, True)
    width = gemm.heads * gemm.n
    bias = _bias(gemm, launch, args)
    finish: tuple[Statement, ...]
    if tail:
        zeros = () if bias else (Declare("static const float", f"zeros[{width}]", "{}"),)
        finish = (*zeros, tail.call("n", bias or "zeros"))
    else:
        to = f"{args.buffer(gemm.out)} + int64_t(n) * {width}"
        value = f"({bias})[j]" if bias else "0"
        fill: Statement = Assign(f"({to})[j]", value)
        if launch.buffer(gemm.out).element is Element.BFLOAT16:
            fill = Do(f"store<float>({to}, j, {value})")
        finish = (For("int", "j", "0", f"{width}", (fill,)),)
    ends = args.index("", "indptr" if gemm.only is End.DST else "csc_indptr")
    without = If(f"{ends}[n] == {ends}[n + 1]", finish)
    expect: tuple[Statement, ...] = ()
    if tail and schedule.prefetch and width >= LINE:
        # Rows to come have the same width whether they are filled or not.
        ahead = f"minimum<int32_t>(n + {schedule.prefetch}, {stop} - 1)"
        expect = tuple(
            Do(f"expect_row<{width}>({args.buffer(name)} + int64_t({ahead}) * {width})")
            for name, writes in tail.touched()
            if writes
        )
    return [
        Comment("nodes without an edge"),
        For("int32_t", "n", first, stop, (*expect, without)),
    ]


def _bias(gemm: Gemm, launch: Launch, args: Arguments) -> str:
    """Where the bias of node n lies; "" where there is none."""
    if gemm.bias is None:
        return ""
    bias = args.buffer(gemm.bias)
    if launch.type_of(gemm.bias).space is Space.NTYPE:
        bias += f" + int64_t({args.node_types()}[n]) * {gemm.heads * gemm.n}"
    return bias
