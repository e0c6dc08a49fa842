"""What kernels read and write."""

from __future__ import annotations

from collections.abc import Iterator

from hetune.variants.kernel.nodes import (
    Def,
    Direct,
    ForEach,
    Gather,
    Gemm,
    Kernel,
    Read,
    SegmentSum,
    Stmt,
    Store,
    Traversal,
)
from hetune.variants.program.nodes import End


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
