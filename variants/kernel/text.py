"""The text form of the intra-operator IR; `parse` reads it: `parse(show(launch)) == launch`.

The text is canonical: equal launches print equally, so it is part of a compiled kernel's key.

    launch
      buffer x: node[64]
      buffer w: etype[64,64]
      buffer t: src_pair@s[64] of bfloat16
      gemm t[src_pair@s] = x[src] @ w heads=1 k=64 n=64
      outer v[edge] = x[src], y[dst] heads=1 k=64 n=64
      traverse node
        init acc: [64] sum
        for edge@s
          h: [64] = read t
          update acc h
        store y += acc
      traverse node
        softmax share: [4] over edge to a
          scores edge
            s: [4] = read k
            score s
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from hetune.variants.kernel.gpu_schedule import AnySchedule
from hetune.variants.kernel.nodes import (
    Apply,
    Def,
    Direct,
    EdgeSoftmax,
    Element,
    Expr,
    FoldAxis,
    ForEach,
    Gather,
    Gemm,
    Init,
    Inner,
    Kernel,
    Launch,
    Outer,
    Read,
    Rows,
    Schedule,
    SegmentSum,
    Stmt,
    Traversal,
    Update,
    Write,
)
from hetune.variants.program.nodes import End, Type

INDENT = "  "
"""Of each level below a launch."""


def show(launch: Launch) -> str:
    """The canonical text of a launch, with a newline at its end."""
    lines = ["launch"]
    for b in launch.buffers:
        scratch = f" in scratch {b.scratch}" if b.scratch else ""
        element = "" if b.element is Element.FLOAT32 else f" of {b.element}"
        lines.append(f"{INDENT}buffer {b.name}: {show_type(b.type)}{element}{scratch}")
    for kernel in launch.kernels:
        lines += (INDENT + line for line in _kernel_lines(kernel))
    return "\n".join(lines) + "\n"


def show_kernel(kernel: Kernel) -> str:
    """The first line of a kernel."""
    return next(_kernel_lines(kernel))


def show_statement(statement: Stmt) -> str:
    """The first line of a statement."""
    return next(_statement_lines(statement))


def show_type(type: Type) -> str:
    """A buffer's type, e.g. ``src_pair@s[4,16]``."""
    return show_rows(Rows(type.space, type.group)) + _shape(type.shape)


def show_rows(rows: Rows) -> str:
    """A loop's domain, e.g. ``edge@s``."""
    return f"{rows.space}@{rows.group}" if rows.group else str(rows.space)


def show_schedule(schedule: AnySchedule) -> str:
    """The canonical text of a schedule, one line."""
    head = "schedule" if isinstance(schedule, Schedule) else "gpu_schedule"
    settings = (f"{f.name}={getattr(schedule, f.name)}" for f in fields(schedule))
    return f"{head} " + " ".join(settings)


def _shape(shape: tuple[int, ...]) -> str:
    return f"[{','.join(map(str, shape))}]"


def _at(buffer: str, end: End) -> str:
    return buffer if end is End.NONE else f"{buffer}[{end}]"


def _kernel_lines(kernel: Kernel) -> Iterator[str]:
    match kernel:
        case Gemm(tail=body):
            yield _gemm(kernel)
        case Outer():
            yield _outer(kernel)
            return
        case Traversal(rows, body):
            yield f"traverse {show_rows(rows)}"
    for statement in body:
        yield from (INDENT + line for line in _statement_lines(statement))


def _gemm(gemm: Gemm) -> str:
    rows = show_rows(gemm.rows) + (" -> node" if gemm.scatter else "")
    sign = "+=" if gemm.accumulate else "="
    scale = f"{gemm.scale} * " if gemm.scale is not None else ""
    bias = f" + {gemm.bias}" if gemm.bias is not None else ""
    sizes = f"heads={gemm.heads} k={gemm.k} n={gemm.n}"
    if gemm.only is not End.NONE:
        sizes += f" only={gemm.only}" + (" fill" if gemm.fill else "")
    return f"gemm {gemm.out}[{rows}] {sign} {scale}{_operand(gemm.x)} @ {gemm.w}{bias} {sizes}"


def _outer(outer: Outer) -> str:
    sign = "+=" if outer.accumulate else "="
    scale = f"{outer.scale} * " if outer.scale is not None else ""
    operands = ", ".join(_operand(factor.x) for factor in outer.factors)
    sizes = f"heads={outer.heads} k={outer.k} n={outer.n}"
    return f"outer {outer.out}[{show_rows(outer.rows)}] {sign} {scale}{operands} {sizes}"


def _operand(x: Direct | Gather | SegmentSum) -> str:
    match x:
        case Direct(buffer, fn, const):
            return _expr(Apply(fn, (buffer,), const)) if fn else buffer
        case Gather(buffer, end):
            return f"{buffer}[{end}]"
        case SegmentSum(buffer, end, weight):
            return f"sum({f'{weight} * ' if weight is not None else ''}{_at(buffer, end)})"


def _statement_lines(statement: Stmt) -> Iterator[str]:
    match statement:
        case Def(name, shape, expr):
            yield f"{name}: {_shape(shape)} = {_expr(expr)}"
        case Init(name, shape, reduce):
            yield f"init {name}: {_shape(shape)} {reduce}"
        case Update(name, value):
            yield f"update {name} {value}"
        case Write(buffer, value, accumulate):
            yield f"store {buffer} {'+=' if accumulate else '='} {value}"
        case ForEach(rows, body):
            yield f"for {show_rows(rows)}"
            for inner in body:
                yield from (INDENT + line for line in _statement_lines(inner))
        case EdgeSoftmax(name, shape, rows, scores, buffer, sums):
            to = f" to {buffer}" if buffer else ""
            yield f"softmax {name}: {_shape(shape)} over {show_rows(rows)}{to}"
            for part in scores:
                yield f"{INDENT}scores {show_rows(part.rows)}"
                for definition in part.body:
                    yield from (INDENT * 2 + line for line in _statement_lines(definition))
                yield f"{INDENT * 2}score {part.value}"
            for loop in sums:
                yield from (INDENT + line for line in _statement_lines(loop))


def _expr(expr: Expr) -> str:
    match expr:
        case Read(buffer, end):
            return f"read {_at(buffer, end)}"
        case FoldAxis(x, axis, fn):
            return f"fold({x}, axis={axis}, {fn})"
        case Apply(fn, args, const):
            constant = () if const is None else (f"const={float(const)!r}",)
            return f"{fn}({', '.join((*args, *constant))})"
        case Inner(x, y):
            return f"dot({x}, {y})"
