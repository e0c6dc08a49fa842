"""What kernels read and write."""

from __future__ import annotations

from collections.abc import Iterator

from hetune.variants.kernel.nodes import (
    Def,
    Direct,
    EdgeSoftmax,
    ForEach,
    Gather,
    Gemm,
    Kernel,
    Read,
    SegmentSum,
    Stmt,
    Traversal,
    Write,
)
from hetune.variants.program.nodes import End


def reads(kernel: Kernel) -> Iterator[tuple[str, End]]:
    """The buffers that a kernel reads, each with the end of the edge it is read at."""
    match kernel:
        case Gemm():
            yield from product_reads(kernel)
            yield from _reads(kernel.tail)
        case Traversal(body=body):
            yield from _reads(body)


def product_reads(gemm: Gemm) -> Iterator[tuple[str, End]]:
    """As `reads`, of what comes before a product's tail."""
    match gemm.x:
        case Direct(buffer):
            yield buffer, End.NONE
        case Gather(buffer, end):
            yield buffer, end
        case SegmentSum(buffer, end, weight):
            yield buffer, end
            if weight is not None:
                yield weight, End.NONE
    for name in (gemm.w, gemm.scale, gemm.bias):
        if name is not None:
            yield name, End.NONE


def writes(kernel: Kernel) -> Iterator[str]:
    """The buffers that a kernel writes."""
    match kernel:
        case Gemm(tail=()):
            yield kernel.out
        case Gemm(tail=body) | Traversal(body=body):
            for statement in statements(body):
                match statement:
                    case Write(buffer=buffer):
                        yield buffer
                    case EdgeSoftmax(buffer=buffer) if buffer:
                        yield buffer


def touched(kernel: Kernel) -> Iterator[str]:
    """The buffers that a kernel reads or writes."""
    yield from (name for name, _ in reads(kernel))
    yield from writes(kernel)


def statements(body: tuple[Stmt, ...]) -> Iterator[Stmt]:
    """All statements, those of inner loops included."""
    for statement in body:
        yield statement
        match statement:
            case ForEach(body=inner):
                yield from statements(inner)
            case EdgeSoftmax(scores=scores, sums=sums):
                for part in scores:
                    yield from part.body
                yield from statements(sums)


def _reads(body: tuple[Stmt, ...]) -> Iterator[tuple[str, End]]:
    for statement in statements(body):
        match statement:
            case Def(expr=Read(buffer, end)):
                yield buffer, end
