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

from collections.abc import Sequence

from hetune.variants.kernel.aliases import independent, memory_of, with_kernels
from hetune.variants.kernel.names import join
from hetune.variants.kernel.nodes import Gemm, Kernel, Launch, Traversal
from hetune.variants.kernel.one_walk import one_walk
from hetune.variants.kernel.running import shares_stored, shares_where_read
from hetune.variants.kernel.softmax import Softmax, find_softmax
from hetune.variants.kernel.walk import reads, touched, writes


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
    return with_kernels(launch, done)


def _may_precede(product: Kernel, walk: Traversal, launch: Launch) -> bool:
    """Whether a product may run before the walk that it follows."""
    return isinstance(product, Gemm) and independent(product, walk, launch)


def _covers(softmax: Softmax, launch: Launch) -> bool:
    """Whether all edges have scores: what is scratch is written before it is read."""
    alike = [loop.rows for loop in softmax.scores] == [softmax.loop.rows]
    return alike or bool(memory_of(softmax.buffer, launch))


def _readers(
    kernel: Traversal, softmax: Softmax, later: Sequence[Kernel], launch: Launch
) -> tuple[Traversal, ...] | None:
    """The Traversals right behind that read the shares; None if others may, or write there."""
    memory = memory_of(softmax.buffer, launch)
    if not memory:
        return None
    touching = [i for i, other in enumerate(later) if memory & set(touched(other))]
    readers = later[: touching[-1] + 1] if touching else []
    found = tuple(r for r in readers if isinstance(r, Traversal) and r.rows == kernel.rows)
    behind = (Traversal(kernel.rows, kernel.body[softmax.last + 1 :]), *found)
    alone = all(
        memory.isdisjoint(writes(each))
        and memory & {name for name, _ in reads(each)} <= {softmax.buffer}
        for each in behind
    )
    return found if alone and len(found) == len(readers) else None
