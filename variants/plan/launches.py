"""Which kernels run together: the fewest launches, each block by block through the cache."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hetune.variants.kernel.nodes import Buffer, Kernel, Launch
from hetune.variants.kernel.walk import reads, writes
from hetune.variants.program.nodes import End, Space, Type

_BLOCKED = (Space.NODE, Space.DST_PAIR, Space.EDGE)
_SOURCE_PAIRS = (Space.SRC_PAIR, Space.SRC_DENSE)


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
            written = {views.get(name, name) for name in writes(kernels[d])}
            shared = [
                local for name, local in _touched(kernel, types) if views.get(name, name) in written
            ]
            if shared:
                together = all(shared) and all(
                    one.rows.space in _BLOCKED for one in (kernel, kernels[d])
                )
                waits[d] = 0 if together else 1
        before.append(waits)
    return before


def _touched(kernel: Kernel, types: Mapping[str, Type]) -> Iterator[tuple[str, bool]]:
    """The buffers that a kernel reads or writes, and whether only in the rows of its block."""
    for name, end in reads(kernel):
        yield name, end is not End.SRC and types[name].space not in _SOURCE_PAIRS
    for name in writes(kernel):
        yield name, True


def _launch(kernels: tuple[Kernel, ...], types: Mapping[str, Type]) -> Launch:
    names = dict.fromkeys(name for kernel in kernels for name, _ in _touched(kernel, types))
    return Launch(kernels, tuple(Buffer(name, types[name]) for name in names))
