"""Gives softmaxes the sums that their shares weight, so that the shares need not be stored.

For backends that run kernel after kernel. Traversals over the same rows become one where the later
ones read the earlier's softmax. Where anything but such sums reads the shares, they stay in their
buffer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hetune.variants.kernel.names import join, renamed, used
from hetune.variants.kernel.nodes import (
    Def,
    EdgeSoftmax,
    ForEach,
    Gemm,
    Init,
    Kernel,
    Launch,
    Read,
    Stmt,
    Traversal,
    Update,
)
from hetune.variants.kernel.passes.aliases import independent, memory_of, with_kernels
from hetune.variants.kernel.walk import reads, statements, touched, writes
from hetune.variants.kernel.weighted import weighted_sums

_Body = tuple[Stmt, ...]


def fuse_softmax(launch: Launch) -> Launch:
    """The launch with sums in its softmaxes, as far as possible."""
    done: list[Kernel] = []
    rest = list(launch.kernels)
    while rest:
        kernel = rest.pop(0)
        place = _stored_softmax(kernel)
        if isinstance(kernel, Traversal) and place is not None:
            while rest and _may_precede(rest[0], kernel, launch):
                done.append(rest.pop(0))
            readers = _readers(kernel, place, rest, launch)
            body = None if readers is None else _with_sums(join((kernel, *readers)).body, place)
            if readers is not None and body is not None:
                del rest[: len(readers)]
                kernel = Traversal(kernel.rows, body)
        done.append(kernel)
    return with_kernels(launch, done)


def _stored_softmax(kernel: Kernel) -> int | None:
    """Where a traversal's first softmax is whose shares are stored."""
    if not isinstance(kernel, Traversal):
        return None
    places = (i for i, s in enumerate(kernel.body) if isinstance(s, EdgeSoftmax) and not s.sums)
    return next(places, None)


def _may_precede(product: Kernel, traversal: Traversal, launch: Launch) -> bool:
    """Whether a product may run before the traversal that it follows."""
    return isinstance(product, Gemm) and independent(product, traversal, launch)


def _readers(
    kernel: Traversal, place: int, later: Sequence[Kernel], launch: Launch
) -> tuple[Traversal, ...] | None:
    """The Traversals right behind that read the shares; None if others may, or write there."""
    softmax = kernel.body[place]
    assert isinstance(softmax, EdgeSoftmax)
    memory = memory_of(softmax.buffer, launch)
    if not memory:
        return None
    touching = [i for i, other in enumerate(later) if memory & set(touched(other))]
    readers = later[: touching[-1] + 1] if touching else []
    found = tuple(r for r in readers if isinstance(r, Traversal) and r.rows == kernel.rows)
    behind = (Traversal(kernel.rows, kernel.body[place + 1 :]), *found)
    alone = all(
        memory.isdisjoint(writes(each))
        and memory & {name for name, _ in reads(each)} <= {softmax.buffer}
        for each in behind
    )
    return found if alone and len(found) == len(readers) else None


def _with_sums(body: _Body, place: int) -> _Body | None:
    """The body with the loops that read the shares in the softmax; None if they do not suit."""
    softmax, before, after = body[place], body[:place], body[place + 1 :]
    assert isinstance(softmax, EdgeSoftmax)
    places = [i for i, s in enumerate(after) if _reads(s, softmax.buffer)]
    end = places[-1] + 1 if places else 0
    between = tuple(after[i] for i in range(end) if i not in places)
    loops = [_with_share(after[i], softmax) for i in places]
    sums: dict[str, None] = {}
    for loop in loops:
        found = None if loop is None else weighted_sums(loop.body, softmax.name)
        if not found:
            return None
        sums |= found
    inits = {s.name: s for s in (*before, *between) if isinstance(s, Init)}
    made = tuple(loop for loop in loops if loop is not None)
    later = {s.name for s in between if isinstance(s, Def)}
    updated = {s.name for s in statements(after[end:]) if isinstance(s, Update)}
    scores = (replace(softmax, buffer=""),)
    if (
        not made
        or not all(name in inits and inits[name].reduce == "sum" for name in sums)
        or not all(isinstance(s, Def | Init) for s in between)
        or later & used(made)
        or sums.keys() & (used((*before, *between, *scores)) | updated)
    ):
        return None
    in_one = {loop.rows for loop in made} <= {part.rows for part in softmax.scores}
    return (
        *before,
        *(s for s in between if isinstance(s, Init)),
        replace(softmax, buffer="" if in_one else softmax.buffer, sums=made),
        *(s for s in between if isinstance(s, Def)),
        *after[end:],
    )


def _reads(statement: Stmt, buffer: str) -> bool:
    return any(isinstance(s, Def) and s.expr == Read(buffer) for s in statements((statement,)))


def _with_share(statement: Stmt, softmax: EdgeSoftmax) -> ForEach | None:
    """A loop over edges that has the shares as values, instead of reading them."""
    if not isinstance(statement, ForEach):
        return None
    share = Read(softmax.buffer)
    local = {s.name: softmax.name for s in statement.body if isinstance(s, Def) and s.expr == share}
    kept = tuple(s for s in statement.body if not (isinstance(s, Def) and s.name in local))
    return ForEach(statement.rows, renamed(kept, local))
