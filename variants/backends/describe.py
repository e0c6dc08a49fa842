"""What a kernel computes, in one line: comments of generated code."""

from __future__ import annotations

from hetune.variants.kernel.nodes import Direct, Gather, Gemm, Rows, SegmentSum, Traversal
from hetune.variants.kernel.walk import writes


def describe_gemm(gemm: Gemm) -> str:
    """The product, and for which rows."""
    match gemm.x:
        case Direct(buffer):
            x = buffer
        case Gather(buffer, end):
            x = f"{buffer}[{end}]"
        case SegmentSum(buffer, _, weight):
            x = f"sum({f'{weight} * ' if weight else ''}{buffer})"
    scale = f"{gemm.scale} * " if gemm.scale else ""
    bias = f" + {gemm.bias}" if gemm.bias else ""
    out = f"{gemm.out}[dst]" if gemm.scatter else gemm.out
    sign = "+=" if gemm.accumulate else "="
    return f"{out} {sign} {scale}{x} @ {gemm.w}{bias}, {_for_every(gemm.rows)}"


def describe_traversal(traversal: Traversal) -> str:
    """What is written, and for which rows."""
    return f"{', '.join(sorted(set(writes(traversal))))}, {_for_every(traversal.rows)}"


def _for_every(rows: Rows) -> str:
    return f"for every {rows.space}{f' of group {rows.group!r}' if rows.group else ''}"
