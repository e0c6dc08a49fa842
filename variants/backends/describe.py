"""What kernels compute, in one line, and what launches are called."""

from __future__ import annotations

import hashlib

from hetune.variants.kernel.nodes import (
    Direct,
    Gather,
    Gemm,
    Kernel,
    Launch,
    Outer,
    Rows,
    SegmentSum,
    Traversal,
)
from hetune.variants.kernel.walk import writes

_NAME_LENGTH = 80


def describe_gemm(gemm: Gemm) -> str:
    """The product, and for which rows."""
    x = _operand(gemm.x)
    scale = f"{gemm.scale} * " if gemm.scale else ""
    bias = f" + {gemm.bias}" if gemm.bias else ""
    out = f"{gemm.out}[dst]" if gemm.scatter else gemm.out
    sign = "+=" if gemm.accumulate else "="
    product = f"{out} {sign} {scale}{x} @ {gemm.w}{bias}"
    if gemm.tail:
        product = f"{describe_written(gemm)} of {product}"
    return f"{product}, {_for_every(gemm.rows)}"


def describe_outer(outer: Outer) -> str:
    """The sum, and of which rows."""
    scale = f"{outer.scale} * " if outer.scale else ""
    operands = " outer ".join(_operand(factor.x) for factor in outer.factors)
    sign = "+=" if outer.accumulate else "="
    return f"{outer.out} {sign} sum of {scale}{operands}, {_for_every(outer.rows)}"


def describe_traversal(traversal: Traversal) -> str:
    """What is written, and for which rows."""
    return f"{describe_written(traversal)}, {_for_every(traversal.rows)}"


def launch_name(launch: Launch, recipe: str, *before: str) -> str:
    """A readable name; a digest of the recipe keeps the names of a layer's kernels apart."""
    parts = [*before]
    for kernel in launch.kernels:
        if isinstance(kernel, Gemm | Outer):
            heads = f"{kernel.heads}x" if kernel.heads > 1 else ""
            kind = "gemm" if isinstance(kernel, Gemm) else "outer"
            parts.append(f"{kind}-{kernel.rows.space}-{heads}{kernel.k}x{kernel.n}")
        else:
            parts.append(f"walk-{kernel.rows.space}")
    digest = hashlib.sha256(recipe.encode()).hexdigest()[:8]
    return f"{'-'.join(parts)[:_NAME_LENGTH]}-{digest}"


def describe_written(kernel: Kernel) -> str:
    """The buffers that are written."""
    return ", ".join(sorted(set(writes(kernel))))


def _operand(x: Direct | Gather | SegmentSum) -> str:
    match x:
        case Direct(buffer, fn):
            return f"{fn}({buffer})" if fn else buffer
        case Gather(buffer, end):
            return f"{buffer}[{end}]"
        case SegmentSum(buffer, _, weight):
            return f"sum({f'{weight} * ' if weight else ''}{buffer})"


def _for_every(rows: Rows) -> str:
    return f"for every {rows.space}{f' of group {rows.group!r}' if rows.group else ''}"
