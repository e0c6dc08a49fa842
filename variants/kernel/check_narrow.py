"""The rules of buffers of bfloat16."""

from __future__ import annotations

from collections.abc import Iterator

from hetune.variants.errors import KernelError
from hetune.variants.kernel.nodes import (
    EdgeSoftmax,
    Element,
    Gemm,
    Kernel,
    Launch,
    Outer,
    SegmentSum,
    Stmt,
    Traversal,
    Write,
)
from hetune.variants.kernel.text import show_type
from hetune.variants.kernel.walk import statements, touched

GROUP = 32
"""Elements that backends store together."""
_HALF = GROUP // 2


def may_be_narrow(shape: tuple[int, ...]) -> bool:
    """Whether rows of a shape may be of bfloat16: vectors then hold no parts of two halves."""
    width, last = 1, shape[-1] if shape else 1
    for extent in shape:
        width *= extent
    return width % GROUP == 0 and (last % _HALF == 0 or _HALF % last == 0)


def unfit_for_narrow(kernel: Kernel) -> Iterator[str]:
    """Buffers that a kernel uses in a way in which it can use none of bfloat16."""
    match kernel:
        case Gemm(x=x, w=w, scale=scale, bias=bias, tail=body):
            weight = x.weight if isinstance(x, SegmentSum) else None
            yield from (name for name in (w, scale, bias, weight) if name is not None)
            if kernel.accumulate:
                yield kernel.out
        case Outer():
            yield from touched(kernel)
            return
        case Traversal(body=body):
            pass
    yield from _added_to(body)


def product_rows(kernel: Kernel) -> Iterator[tuple[str, tuple[int, int]]]:
    """The rows that a product reads and writes, each with its heads and their width."""
    if isinstance(kernel, Gemm):
        yield kernel.x.buffer, (kernel.heads, kernel.k)
        if not kernel.tail:
            yield kernel.out, (kernel.heads, kernel.n)


def _added_to(body: tuple[Stmt, ...]) -> Iterator[str]:
    for statement in statements(body):
        match statement:
            case Write(buffer, _, True) | EdgeSoftmax(buffer=buffer):
                yield buffer


def check_narrow(launch: Launch) -> None:
    """Check what kernels do with buffers of bfloat16.

    Raises:
        KernelError: Names the buffer and how to mend it.
    """
    narrow = {b.name: b for b in launch.buffers if b.element is Element.BFLOAT16}
    for name, buffer in narrow.items():
        place = f"buffer `{name}: {show_type(buffer.type)} of {buffer.element}`"
        if not may_be_narrow(buffer.type.shape):
            raise KernelError(
                f"{place}: rows are no multiple of {GROUP}, or their last axis crosses one of "
                f"{_HALF}: make it float32"
            )
        if buffer.scratch:
            raise KernelError(f"{place}: scratch stays in cache: make it float32")
    for kernel in launch.kernels:
        for name, shape in product_rows(kernel):
            if name in narrow and not may_be_narrow(shape):
                raise KernelError(
                    f"buffer {name!r} of bfloat16: a product of heads that are {shape[1]} wide "
                    f"crosses halves of {_HALF}: make it float32"
                )
        for name in unfit_for_narrow(kernel):
            if name in narrow:
                raise KernelError(
                    f"buffer {name!r} of bfloat16 is added to, or is no row that a kernel "
                    "computes with: make it float32"
                )
