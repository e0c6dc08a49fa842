"""What kernels read and write."""

from __future__ import annotations

from collections.abc import Iterator

from hetune.variants.kernel.nodes import (
    Def,
    Direct,
    ForEach,
    Gather,
    Gemm,
    Init,
    Kernel,
    Read,
    Rows,
    SegmentSum,
    Stmt,
    Store,
    Traversal,
    Update,
)
from hetune.variants.program.nodes import End, Space


def reads(kernel: Kernel) -> Iterator[tuple[str, End]]:
    """The buffers that a kernel reads, each with the end of the edge it is read at."""
    match kernel:
        case Gemm():
            match kernel.x:
                case Direct(buffer):
                    yield buffer, End.NONE
                case Gather(buffer, end):
                    yield buffer, end
                case SegmentSum(buffer, end, weight):
                    yield buffer, end
                    if weight is not None:
                        yield weight, End.NONE
            for name in (kernel.w, kernel.scale, kernel.bias):
                if name is not None:
                    yield name, End.NONE
        case Traversal(body=body):
            for statement in statements(body):
                match statement:
                    case Def(expr=Read(buffer, end)):
                        yield buffer, end


def writes(kernel: Kernel) -> Iterator[str]:
    """The buffers that a kernel writes."""
    match kernel:
        case Gemm(out=out):
            yield out
        case Traversal(body=body):
            for statement in statements(body):
                match statement:
                    case Store(buffer=buffer):
                        yield buffer


def statements(body: tuple[Stmt, ...]) -> Iterator[Stmt]:
    """All statements, those of inner loops included."""
    for statement in body:
        yield statement
        match statement:
            case ForEach(body=inner):
                yield from statements(inner)


def edges_summed(kernel: Kernel) -> ForEach | None:
    """The one loop over edges of a Traversal over nodes, if it does nothing but update totals.

    Its edges may be shared out among workers in pieces of any size.
    """
    if not isinstance(kernel, Traversal) or kernel.rows != Rows(Space.NODE):
        return None
    loops = [i for i, stmt in enumerate(kernel.body) if isinstance(stmt, ForEach)]
    if len(loops) != 1:
        return None
    loop = kernel.body[loops[0]]
    assert isinstance(loop, ForEach)
    before, after = kernel.body[: loops[0]], kernel.body[loops[0] + 1 :]
    only = (
        loop.rows.space is Space.EDGE
        and all(isinstance(stmt, Def | Update) for stmt in loop.body)
        and all(isinstance(stmt, Def | Init) for stmt in before)
        and all(isinstance(stmt, Def | Store) for stmt in after)
    )
    return loop if only else None
