"""Tables that edges read, stored as bfloat16: half the bytes of what is gathered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import replace
from typing import TypeVar

from hetune.variants.kernel.check_narrow import may_be_narrow, product_rows, unfit_for_narrow
from hetune.variants.kernel.names import Names
from hetune.variants.kernel.nodes import (
    Buffer,
    Def,
    EdgeSoftmax,
    Element,
    ForEach,
    Gather,
    Gemm,
    Kernel,
    Launch,
    Read,
    Rows,
    SegmentSum,
    Stmt,
    Traversal,
    Write,
)
from hetune.variants.kernel.walk import touched
from hetune.variants.program.nodes import End, Space, Type

_S = TypeVar("_S", bound=Stmt)


def narrowed(
    launches: tuple[Launch, ...], views: Mapping[str, str], given: Set[str], results: Set[str]
) -> tuple[Launch, ...]:
    """The launches with every table that edges read at sources in bfloat16.

    Given features are copied first. Sums, scores and the results stay float32.

    Args:
        launches: Of a plan, with its scratch.
        views: Second names of buffers.
        given: Buffers that the plan is given.
        results: Those that it is to fill.
    """
    types = {buffer.name: buffer.type for launch in launches for buffer in launch.buffers}
    scratch = {b.name for launch in launches for b in launch.buffers if b.scratch}
    kernels = [kernel for launch in launches for kernel in launch.kernels]
    unfit = {name for name, kind in types.items() if not may_be_narrow(kind.shape)}
    unfit |= {name for kernel in kernels for name in _unfit(kernel)}
    wide = {views.get(name, name) for name in unfit | scratch} | results | given
    gathered = {name for kernel in kernels for name in _gathered(kernel, types)}
    tables = {views.get(name, name) for name in gathered} - wide
    narrow = {name for name in types if views.get(name, name) in tables}
    copied = sorted(name for name in (gathered & given) - unfit)
    copies = {name: Names(types).fresh(f"{name}_bf16") for name in copied}
    narrow |= {*copies.values()}
    types |= {copy: types[name] for name, copy in copies.items()}
    if not narrow:
        return launches
    copying = tuple(_copy(name, copy, types[name]) for name, copy in copies.items())
    found = (*copying, *(_with_copies(launch, copies, types) for launch in launches))
    return tuple(replace(launch, buffers=_buffers(launch, narrow)) for launch in found)


def _unfit(kernel: Kernel) -> Iterator[str]:
    yield from unfit_for_narrow(kernel)
    yield from (name for name, shape in product_rows(kernel) if not may_be_narrow(shape))


def _gathered(kernel: Kernel, types: Mapping[str, Type]) -> Iterator[str]:
    """The buffers whose rows a kernel reads in no order, once for each edge."""
    match kernel:
        case Gemm(x=SegmentSum(buffer, End.SRC)):
            yield buffer
        case Gemm(x=Gather(buffer, End.SRC), rows=Rows(Space.EDGE)):
            yield buffer
        case Traversal(rows, body):
            yield from _read_at_sources(rows, body, types)


def _read_at_sources(
    rows: Rows, body: tuple[Stmt, ...], types: Mapping[str, Type]
) -> Iterator[str]:
    for statement in body:
        match statement:
            case Def(expr=Read(buffer, end)):
                space = types[buffer].space
                at_source = space is Space.SRC_PAIR or (space is Space.NODE and end is End.SRC)
                if at_source and rows.space is Space.EDGE:
                    yield buffer
            case ForEach(inner, nested):
                yield from _read_at_sources(inner, nested, types)
            case EdgeSoftmax(scores=scores, sums=sums):
                for part in scores:
                    yield from _read_at_sources(part.rows, part.body, types)
                yield from _read_at_sources(rows, sums, types)


def _copy(name: str, copy: str, type: Type) -> Launch:
    body = (Def("row", type.shape, Read(name)), Write(copy, "row"))
    kernel = Traversal(Rows(type.space, type.group), body)
    return Launch((kernel,), (Buffer(name, type), Buffer(copy, type)))


def _with_copies(launch: Launch, copies: Mapping[str, str], types: Mapping[str, Type]) -> Launch:
    """The launch with edges that read copies of the features."""
    kernels = tuple(_kernel_with_copies(kernel, copies) for kernel in launch.kernels)
    if kernels == launch.kernels:
        return launch
    known = {buffer.name: buffer for buffer in launch.buffers}
    known |= {copy: Buffer(copy, types[copy]) for copy in copies.values()}
    named = dict.fromkeys(name for kernel in kernels for name in touched(kernel))
    return Launch(kernels, tuple(known[name] for name in named))


def _kernel_with_copies(kernel: Kernel, copies: Mapping[str, str]) -> Kernel:
    match kernel:
        case Gemm(x=SegmentSum(buffer, End.SRC) as x):
            return replace(kernel, x=replace(x, buffer=copies.get(buffer, buffer)))
        case Gemm(x=Gather(buffer, End.SRC), rows=Rows(Space.EDGE)):
            return replace(kernel, x=Gather(copies.get(buffer, buffer), End.SRC))
        case Traversal(rows, body) if rows.space is not Space.SRC_PAIR:
            return Traversal(rows, tuple(_with_copies_read(s, copies) for s in body))
    return kernel


def _with_copies_read(statement: _S, copies: Mapping[str, str]) -> _S:
    match statement:
        case Def(expr=Read(buffer, End.SRC)):
            return replace(statement, expr=Read(copies.get(buffer, buffer), End.SRC))
        case ForEach(body=body):
            return replace(statement, body=tuple(_with_copies_read(s, copies) for s in body))
        case EdgeSoftmax(scores=scores, sums=sums):
            read = tuple(
                replace(part, body=tuple(_with_copies_read(s, copies) for s in part.body))
                for part in scores
            )
            summed = tuple(_with_copies_read(loop, copies) for loop in sums)
            return replace(statement, scores=read, sums=summed)
    return statement


def _buffers(launch: Launch, narrow: Set[str]) -> tuple[Buffer, ...]:
    return tuple(
        replace(buffer, element=Element.BFLOAT16) if buffer.name in narrow else buffer
        for buffer in launch.buffers
    )
