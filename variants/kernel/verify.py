"""The rules of the intra-operator IR, checked."""

from __future__ import annotations

from collections.abc import Iterator

from hetune.variants.errors import KernelError
from hetune.variants.kernel.blocks import is_node_blocked
from hetune.variants.kernel.check import NAME, PAIRS
from hetune.variants.kernel.check_gemm import GemmCheck, OuterCheck
from hetune.variants.kernel.check_narrow import check_narrow
from hetune.variants.kernel.check_traversal import TraversalCheck
from hetune.variants.kernel.nodes import (
    Buffer,
    Def,
    EdgeSoftmax,
    Gemm,
    Kernel,
    Launch,
    Outer,
    Read,
    Traversal,
    Write,
)
from hetune.variants.kernel.text import show_kernel, show_type
from hetune.variants.kernel.walk import product_reads, reads, statements, writes
from hetune.variants.program.nodes import End, Space

_NODE_BLOCKED = (Space.NODE, Space.EDGE, Space.DST_PAIR)


def verify(launch: Launch) -> None:
    """Check every rule that the classes of the IR promise.

    Raises:
        KernelError: Names the kernel, the statement, the broken rule and how to mend it.
    """
    _check_buffers(launch)
    if not launch.kernels:
        raise KernelError("the launch has no kernels: give it one, or drop it")
    types = {buffer.name: buffer.type for buffer in launch.buffers}
    for position, kernel in enumerate(launch.kernels):
        place = f"kernel {position} `{show_kernel(kernel)}`"
        match kernel:
            case Gemm():
                GemmCheck(place, types, kernel).run()
            case Outer():
                OuterCheck(place, types, kernel).run()
            case Traversal():
                TraversalCheck(place, types, kernel).run()
    check_narrow(launch)
    _check_scratch(launch)
    _check_scratch_reads(launch)
    _check_order(launch)
    _check_used(launch)


def _check_buffers(launch: Launch) -> None:
    seen: set[str] = set()
    for buffer in launch.buffers:
        place = f"buffer `{buffer.name}: {show_type(buffer.type)}`"
        if not NAME.fullmatch(buffer.name):
            raise KernelError(f"{place}: the name is no identifier: use letters, digits and _")
        if buffer.name in seen:
            raise KernelError(f"{place}: there are two buffers of that name: rename one")
        seen.add(buffer.name)
        _check_buffer_type(place, buffer)


def _check_buffer_type(place: str, buffer: Buffer) -> None:
    space, group = buffer.type.space, buffer.type.group
    if group and space not in PAIRS:
        mend = "edge buffers hold all edges" if space is Space.EDGE else f"{space} has no groups"
        raise KernelError(f"{place}: {mend}: drop @{group}")
    if group and not NAME.fullmatch(group):
        raise KernelError(f"{place}: group {group!r} is no identifier: use letters, digits and _")
    if any(extent < 1 for extent in buffer.type.shape):
        raise KernelError(f"{place}: an extent is below 1: give each axis at least 1 element")


def _check_scratch(launch: Launch) -> None:
    for buffer in launch.buffers:
        if not buffer.scratch:
            continue
        place = f"buffer `{buffer.name}: {show_type(buffer.type)}`"
        if buffer.type.space not in _NODE_BLOCKED or not is_node_blocked(launch):
            raise KernelError(
                f"{place}: scratch lives for a block of nodes: keep it to node, dst_pair and edge "
                "rows in launches that run block by block"
            )
        others = (b.type for b in launch.buffers if b.scratch == buffer.scratch)
        kinds = {(kind.space, kind.group, kind.width) for kind in others}
        if len(kinds) > 1:
            raise KernelError(
                f"{place}: scratch {buffer.scratch!r} is shared by unequal rows: give each its own"
            )


def _check_scratch_reads(launch: Launch) -> None:
    """Scratch has the rows of a block, and nothing in them before the launch writes them."""
    scratch = {buffer.name: buffer.scratch for buffer in launch.buffers if buffer.scratch}
    written: set[str] = set()
    for position, kernel in enumerate(launch.kernels):
        place = f"kernel {position} `{show_kernel(kernel)}`"
        for name, end in reads(kernel):
            if name in scratch and end is End.SRC:
                raise KernelError(
                    f"{place}: reads scratch {name!r} at a source, which may be in another block: "
                    "make it a buffer that lasts, and split the launch before this kernel"
                )
        for name, writes_it in _accesses(kernel):
            if name not in scratch:
                continue
            if writes_it:
                written.add(scratch[name])
            elif scratch[name] not in written:
                raise KernelError(
                    f"{place}: reads scratch {name!r} before the launch has written it: store it "
                    "first, or make it a buffer that lasts"
                )


def _accesses(kernel: Kernel) -> Iterator[tuple[str, bool]]:
    """The buffers that a kernel reads (False) or writes (True), in this order."""
    match kernel:
        case Gemm(out=out, accumulate=accumulate, tail=body):
            yield from ((name, False) for name, _ in product_reads(kernel))
            if accumulate:
                yield out, False
            if not body:
                yield out, True
        case Outer(out=out):
            yield from ((name, False) for name, _ in reads(kernel))
            yield out, True
            return
        case Traversal(body=body):
            pass
    for statement in statements(body):
        match statement:
            case Def(expr=Read(buffer)):
                yield buffer, False
            case Write(buffer, _, accumulate):
                if accumulate:
                    yield buffer, False
                yield buffer, True
            case EdgeSoftmax(buffer=buffer) if buffer:
                yield buffer, True


def _check_order(launch: Launch) -> None:
    """Blocks run in any order, so no row may be read at a source while the launch writes it."""
    written = {name for kernel in launch.kernels for name in writes(kernel)}
    fused = len(launch.kernels) > 1
    for position, kernel in enumerate(launch.kernels):
        place = f"kernel {position} `{show_kernel(kernel)}`"
        if fused and isinstance(kernel, Outer):
            raise KernelError(
                f"{place}: sums into types are no block's: give them their own launch"
            )
        if fused and kernel.rows.space not in _NODE_BLOCKED:
            raise KernelError(
                f"{place}: a launch of several kernels cannot walk {kernel.rows.space} rows: use "
                "node, dst_pair or edge rows, or give the kernel a launch of its own"
            )
        for name, end in reads(kernel):
            at_source = end is End.SRC or launch.type_of(name).space is Space.SRC_PAIR
            own_rows = not fused and kernel.rows.space is Space.SRC_PAIR
            if name in written and at_source and not own_rows:
                raise KernelError(
                    f"{place}: reads {name!r} at a source that the same launch writes: split the "
                    "launch before this kernel, or write another buffer"
                )


def _check_used(launch: Launch) -> None:
    used = {name for kernel in launch.kernels for name, _ in reads(kernel)}
    used |= {name for kernel in launch.kernels for name in writes(kernel)}
    for buffer in launch.buffers:
        if buffer.name not in used:
            raise KernelError(f"buffer {buffer.name!r} is named by no kernel: drop it")
