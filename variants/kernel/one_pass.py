"""Rewrites softmaxes so that they walk a row's edges as few times as their readers allow.

A running maximum takes the place of one that must be known before the first exponential: when it
grows, what has been summed below it shrinks (`Init.below`). Plans walk the edges three times for a
softmax, and once more for every sum of rows that it weights. Of these remain

- one walk, where all who read the shares are sums in loops over the same edges: neither scores nor
  shares are ever stored, and the sums are divided at the end;
- two, where they are other loops of the same rows: they compute the shares from stored scores;
- two, and those of the readers, where another kernel needs the shares in a buffer.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

from hetune.variants.kernel.gpu_schedule import AnySchedule, GpuSchedule
from hetune.variants.kernel.names import join
from hetune.variants.kernel.nodes import Gemm, Kernel, Launch, Traversal
from hetune.variants.kernel.one_walk import one_walk
from hetune.variants.kernel.running import shares_stored, shares_where_read
from hetune.variants.kernel.softmax import Softmax, find_softmax
from hetune.variants.kernel.walk import reads, writes


@functools.lru_cache(maxsize=4096)
def as_run(launch: Launch, schedule: AnySchedule) -> Launch:
    """The launch that runs under a schedule: a GPU's may ask for `one_pass`."""
    if isinstance(schedule, GpuSchedule) and schedule.one_pass:
        return one_pass(launch)
    return launch


def one_pass(launch: Launch) -> Launch:
    """The launch with its softmaxes in running form, for backends that run kernel after kernel.

    Traversals over the same rows become one where the later ones read the earlier's softmax.
    Loops over several groups are taken to go over each edge once, as those of plans do.
    """
    done: list[Kernel] = []
    rest = list(launch.kernels)
    while rest:
        kernel = rest.pop(0)
        while isinstance(kernel, Traversal):
            softmax = find_softmax(kernel.body)
            if softmax is None or not _covers(softmax, launch):
                break
            while rest and _may_precede(rest[0], kernel, launch):
                done.append(rest.pop(0))
            readers = _readers(kernel, softmax, rest, launch)
            if readers is None:
                body = shares_stored(kernel.body, softmax)
            else:
                del rest[: len(readers)]
                joined = join((kernel, *readers)).body
                body = one_walk(joined, softmax) or shares_where_read(joined, softmax)
            kernel = Traversal(kernel.rows, body)
        done.append(kernel)
    named = {name for kernel in done for name in _touched(kernel)}
    return Launch(tuple(done), tuple(b for b in launch.buffers if b.name in named))


def _touched(kernel: Kernel) -> Iterator[str]:
    yield from (name for name, _ in reads(kernel))
    yield from writes(kernel)


def _memory(buffer: str, launch: Launch) -> set[str]:
    """The names of a scratch buffer's memory; none if it is no scratch."""
    scratch = next(b.scratch for b in launch.buffers if b.name == buffer)
    return {b.name for b in launch.buffers if b.scratch == scratch} if scratch else set()


def _may_precede(product: Kernel, walk: Traversal, launch: Launch) -> bool:
    """Whether a product may run before the walk that it follows: neither touches what the other
    writes. What is no scratch may be the same memory under another name if its rows are alike.
    """

    def same(x: str, y: str) -> bool:
        a, b = (next(c for c in launch.buffers if c.name == name) for name in (x, y))
        if a.scratch or b.scratch:
            return a.scratch == b.scratch
        return (a.type.space, a.type.width) == (b.type.space, b.type.width)

    written = {(w, t) for w in writes(walk) for t in _touched(product)}
    written |= {(w, t) for w in writes(product) for t in _touched(walk)}
    return isinstance(product, Gemm) and not any(same(*pair) for pair in written)


def _covers(softmax: Softmax, launch: Launch) -> bool:
    """Whether all edges have scores: what is scratch is written before it is read."""
    alike = [loop.rows for loop in softmax.scores] == [softmax.loop.rows]
    return alike or bool(_memory(softmax.buffer, launch))


def _readers(
    kernel: Traversal, softmax: Softmax, later: Sequence[Kernel], launch: Launch
) -> tuple[Traversal, ...] | None:
    """The Traversals right behind that read the shares; None if others may, or write there."""
    memory = _memory(softmax.buffer, launch)
    if not memory:
        return None
    touching = [i for i, other in enumerate(later) if memory & set(_touched(other))]
    readers = later[: touching[-1] + 1] if touching else []
    found = tuple(r for r in readers if isinstance(r, Traversal) and r.rows == kernel.rows)
    behind = (Traversal(kernel.rows, kernel.body[softmax.last + 1 :]), *found)
    alone = all(
        memory.isdisjoint(writes(each))
        and memory & {name for name, _ in reads(each)} <= {softmax.buffer}
        for each in behind
    )
    return found if alone and len(found) == len(readers) else None
