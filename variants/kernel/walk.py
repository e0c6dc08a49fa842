"""What kernels read and write."""

from __future__ import annotations

from collections.abc import Iterator

from hetune.variants.kernel.nodes import (
    Def,
    Direct,
    EdgeSoftmax,
    Factor,
    ForEach,
    Gather,
    Gemm,
    Kernel,
    Launch,
    Outer,
    Read,
    Rows,
    SegmentSum,
    Stmt,
    Traversal,
    Write,
)
from hetune.variants.program.by_identity import by_identity
from hetune.variants.program.nodes import End


@by_identity
def reads(kernel: Kernel) -> tuple[tuple[str, End], ...]:
    """The buffers that a kernel reads, each with the end of the edge it is read at."""
    return tuple(_kernel_reads(kernel))


def _kernel_reads(kernel: Kernel) -> Iterator[tuple[str, End]]:
    match kernel:
        case Gemm():
            yield from product_reads(kernel)
            yield from _reads(kernel.tail)
        case Outer():
            for factor in kernel.factors:
                yield from _factor_reads(factor)
            if kernel.scale is not None:
                yield kernel.scale, End.NONE
        case Traversal(body=body):
            yield from _reads(body)


def product_reads(gemm: Gemm) -> Iterator[tuple[str, End]]:
    """As `reads`, of what comes before a product's tail."""
    yield from _factor_reads(gemm.factor)
    for name in (gemm.w, gemm.scale, gemm.bias):
        if name is not None:
            yield name, End.NONE


@by_identity
def writes(kernel: Kernel) -> tuple[str, ...]:
    """The buffers that a kernel writes."""
    return tuple(_kernel_writes(kernel))


def _kernel_writes(kernel: Kernel) -> Iterator[str]:
    match kernel:
        case Gemm(tail=()) | Outer():
            yield kernel.out
        case Gemm(tail=body) | Traversal(body=body):
            for statement in statements(body):
                match statement:
                    case Write(buffer=buffer):
                        yield buffer
                    case EdgeSoftmax(buffer=buffer) if buffer:
                        yield buffer


def domains(launch: Launch) -> tuple[Rows, ...]:
    """Rows without all of which a launch has nothing to do: an `Outer` sets even empty sums."""
    sums = (k.out for k in launch.kernels if isinstance(k, Outer) and not k.accumulate)
    types = (Rows(launch.type_of(out).space) for out in sums)
    return (*(kernel.rows for kernel in launch.kernels), *types)


@by_identity
def touched(kernel: Kernel) -> tuple[str, ...]:
    """The buffers that a kernel reads or writes."""
    return (*(name for name, _ in reads(kernel)), *writes(kernel))


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


def _factor_reads(factor: Factor) -> Iterator[tuple[str, End]]:
    match factor.x:
        case Direct(buffer):
            yield buffer, End.NONE
        case Gather(buffer, end):
            yield buffer, end
        case SegmentSum(buffer, end, weight):
            yield buffer, end
            if weight is not None:
                yield weight, End.NONE


def _reads(body: tuple[Stmt, ...]) -> Iterator[tuple[str, End]]:
    for statement in statements(body):
        match statement:
            case Def(expr=Read(buffer, end)):
                yield buffer, end
