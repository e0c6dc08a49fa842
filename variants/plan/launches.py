"""Which kernels run together: the fewest launches, each block by block through the cache."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace

from hetune.variants.kernel.blocks import reads_one_by_one
from hetune.variants.kernel.nodes import Buffer, Direct, Gemm, Kernel, Launch, Outer
from hetune.variants.kernel.walk import reads, writes
from hetune.variants.program.nodes import End, Space, Type

_BLOCKED = (Space.NODE, Space.DST_PAIR, Space.EDGE)


def form_launches(
    kernels: tuple[Kernel, ...],
    types: Mapping[str, Type],
    views: Mapping[str, str],
    *,
    separate_products: bool = False,
) -> tuple[Launch, ...]:
    """Groups kernels, given in an order that respects their dependences, into launches.

    A kernel joins the last launch that its readers allow, so that a block's values are used while
    they are in cache; but products that read the same wide rows run together. Kernels over
    source pairs and sums into types stand alone, and so may products of destination pairs. Where
    nothing goes by nodes all do: products then run over all rows of a type.
    """
    by_nodes = not all(map(reads_one_by_one, kernels))
    blocked = [by_nodes and _is_blocked(kernel, separate_products) for kernel in kernels]
    before = _dependences(kernels, blocked, types, views)
    level = [0] * len(kernels)
    for k, sources in enumerate(before):
        level[k] = max((level[d] + step for d, step in sources.items()), default=0)
    deepest = max(level, default=0)
    latest = [deepest] * len(kernels)
    for k in reversed(range(len(kernels))):
        for d, step in before[k].items():
            latest[d] = min(latest[d], latest[k] - step)
    _join_products(kernels, [k for k, sources in enumerate(before) if not sources], latest)
    launches: list[Launch] = []
    for depth in range(deepest + 1):
        here = [k for k in range(len(kernels)) if latest[k] == depth]
        together = [kernels[k] for k in here if blocked[k]]
        alone = [kernels[k] for k in here if not blocked[k]]
        launches += [_launch((kernel,), types) for kernel in alone]
        if together:
            launches.append(_launch(tuple(together), types))
    return tuple(launches)


def _join_products(
    kernels: tuple[Kernel, ...], independent: Sequence[int], latest: list[int]
) -> None:
    """Has products run where the first one of the same rows does, which are in cache then.

    So rows are read once. It pays where that is more than to store results and read them again.
    """
    first: dict[str, int] = {}
    products = [
        (k, kernel)
        for k in independent
        if isinstance(kernel := kernels[k], Gemm) and isinstance(kernel.x, Direct)
    ]
    for k, gemm in products:
        first[gemm.x.buffer] = min(latest[k], first.get(gemm.x.buffer, latest[k]))
    for k, gemm in products:
        if gemm.k > 2 * gemm.n:
            latest[k] = first[gemm.x.buffer]


def with_scratch(
    launches: tuple[Launch, ...], views: Mapping[str, str], kept: Set[str]
) -> tuple[Launch, ...]:
    """Launches whose buffers are scratch where nothing but a block's own kernels sees them.

    Args:
        launches: All launches of a plan.
        views: Second names of buffers.
        kept: Buffers that must last: what the plan is given and its result.
    """
    where: dict[str, set[int]] = {}
    far: set[str] = set()
    for i, launch in enumerate(launches):
        types = {buffer.name: buffer.type for buffer in launch.buffers}
        for kernel in launch.kernels:
            for name, local in _touched(kernel, types):
                base = views.get(name, name)
                where.setdefault(base, set()).add(i)
                if not local or len(launch.kernels) == 1:
                    far.add(base)
    scratch = {name for name, seen in where.items() if len(seen) == 1 and name not in far | kept}
    return tuple(
        replace(
            launch,
            buffers=tuple(
                replace(buffer, scratch=base)
                if (base := views.get(buffer.name, buffer.name)) in scratch
                else buffer
                for buffer in launch.buffers
            ),
        )
        for launch in launches
    )


def _is_blocked(kernel: Kernel, separate_products: bool) -> bool:
    """Whether a kernel runs block by block, and may share a launch."""
    if isinstance(kernel, Outer):
        return False
    if separate_products and isinstance(kernel, Gemm) and kernel.rows.space is Space.DST_PAIR:
        return False
    return kernel.rows.space in _BLOCKED


def _dependences(
    kernels: tuple[Kernel, ...],
    blocked: Sequence[bool],
    types: Mapping[str, Type],
    views: Mapping[str, str],
) -> list[dict[int, int]]:
    """For each kernel the ones it waits for, with 0 if both may share a launch, else 1."""
    written = [{views.get(name, name) for name in writes(kernel)} for kernel in kernels]
    before: list[dict[int, int]] = []
    for k, kernel in enumerate(kernels):
        touched = [(views.get(name, name), local) for name, local in _touched(kernel, types)]
        waits: dict[int, int] = {}
        for d in range(k):
            shared = [local for name, local in touched if name in written[d]]
            if shared:
                waits[d] = 0 if all(shared) and blocked[k] and blocked[d] else 1
        before.append(waits)
    return before


def _touched(kernel: Kernel, types: Mapping[str, Type]) -> Iterator[tuple[str, bool]]:
    """The buffers that a kernel reads or writes, and whether only in the rows of its block."""
    for name, end in reads(kernel):
        yield name, end is not End.SRC and types[name].space is not Space.SRC_PAIR
    for name in writes(kernel):
        yield name, True


def _launch(kernels: tuple[Kernel, ...], types: Mapping[str, Type]) -> Launch:
    names = dict.fromkeys(name for kernel in kernels for name, _ in _touched(kernel, types))
    return Launch(kernels, tuple(Buffer(name, types[name]) for name in names))
