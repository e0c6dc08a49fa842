"""Which kernels run together: the fewest launches, each block by block through the cache."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from hetune.variants.kernel.nodes import (
    Buffer,
    Def,
    Direct,
    ForEach,
    Gather,
    Gemm,
    Kernel,
    Launch,
    Read,
    SegmentSum,
    Stmt,
    Store,
    Traversal,
)
from hetune.variants.program.nodes import End, Space, Type

_BLOCKED = (Space.NODE, Space.DST_PAIR, Space.EDGE)
_SOURCE_PAIRS = (Space.SRC_PAIR, Space.SRC_DENSE)


@dataclass(frozen=True, slots=True)
class Access:
    """A buffer that a kernel touches; ``local``: only rows of the block it works on."""

    buffer: str
    local: bool


def form_launches(
    kernels: tuple[Kernel, ...], types: Mapping[str, Type], views: Mapping[str, str]
) -> tuple[Launch, ...]:
    """Groups kernels, given in an order that respects their dependences, into launches.

    A kernel joins the last launch that its readers allow, so that a block's values are used while
    they are in cache. Kernels over source pairs stand alone.
    """
    before = _dependences(kernels, types, views)
    level = [0] * len(kernels)
    for k, sources in enumerate(before):
        level[k] = max((level[d] + step for d, step in sources.items()), default=0)
    deepest = max(level, default=0)
    latest = [deepest] * len(kernels)
    for k in reversed(range(len(kernels))):
        for d, step in before[k].items():
            latest[d] = min(latest[d], latest[k] - step)
    launches: list[Launch] = []
    for depth in range(deepest + 1):
        here = [kernel for k, kernel in enumerate(kernels) if latest[k] == depth]
        together = [kernel for kernel in here if kernel.rows.space in _BLOCKED]
        alone = [kernel for kernel in here if kernel.rows.space not in _BLOCKED]
        launches += [_launch((kernel,), types) for kernel in alone]
        if together:
            launches.append(_launch(tuple(together), types))
    return tuple(launches)


def _dependences(
    kernels: tuple[Kernel, ...], types: Mapping[str, Type], views: Mapping[str, str]
) -> list[dict[int, int]]:
    """For each kernel the ones it waits for, with 0 if both may share a launch, else 1."""
    before: list[dict[int, int]] = []
    for k, kernel in enumerate(kernels):
        waits: dict[int, int] = {}
        for d in range(k):
            written = {views.get(a.buffer, a.buffer) for a in writes(kernels[d])}
            touched = [
                access
                for access in (*reads(kernel, types), *writes(kernel))
                if views.get(access.buffer, access.buffer) in written
            ]
            if touched:
                together = all(a.local for a in touched) and all(
                    one.rows.space in _BLOCKED for one in (kernel, kernels[d])
                )
                waits[d] = 0 if together else 1
        before.append(waits)
    return before


def writes(kernel: Kernel) -> Iterator[Access]:
    """The buffers that a kernel writes or adds to."""
    match kernel:
        case Gemm(out=out):
            yield Access(out, local=True)
        case Traversal(body=body):
            for statement in flatten(body):
                if isinstance(statement, Store):
                    yield Access(statement.buffer, local=True)


def reads(kernel: Kernel, types: Mapping[str, Type]) -> Iterator[Access]:
    """The buffers that a kernel reads."""
    match kernel:
        case Gemm(x=x, w=w, scale=scale, bias=bias):
            match x:
                case Direct(buffer=buffer):
                    yield Access(buffer, local=True)
                case Gather(buffer=buffer, end=end):
                    yield Access(buffer, local=end is End.DST)
                case SegmentSum(buffer=buffer, end=end, weight=weight):
                    yield Access(buffer, local=end is End.NONE)
                    if weight is not None:
                        yield Access(weight, local=True)
            yield from (Access(name, local=True) for name in (w, scale, bias) if name is not None)
        case Traversal(body=body):
            for statement in flatten(body):
                if isinstance(statement, Def) and isinstance(statement.expr, Read):
                    read = statement.expr
                    source = types[read.buffer].space in _SOURCE_PAIRS or read.end is End.SRC
                    yield Access(read.buffer, local=not source)


def flatten(body: tuple[Stmt, ...]) -> Iterator[Stmt]:
    """All statements, inner loops' included."""
    for statement in body:
        yield statement
        if isinstance(statement, ForEach):
            yield from flatten(statement.body)


def _launch(kernels: tuple[Kernel, ...], types: Mapping[str, Type]) -> Launch:
    names = dict.fromkeys(
        access.buffer for kernel in kernels for access in (*reads(kernel, types), *writes(kernel))
    )
    return Launch(kernels, tuple(Buffer(name, types[name]) for name in names))
