"""Softmaxes and the sums that their shares weight as one traversal of nodes, for CPUs.

A backend can then sum rows times exponentials while it computes scores that are inner products,
and divide at the end. Scores of single numbers have their exponentials for many edges at once, in
a pass of their own. Unlike `fuse_softmax`, sums of destination pairs are taken in, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from hetune.variants.kernel.names import Names, declared, join, renamed, used
from hetune.variants.kernel.nodes import (
    Def,
    EdgeSoftmax,
    ForEach,
    Init,
    Inner,
    Kernel,
    Launch,
    Read,
    Rows,
    Stmt,
    Traversal,
    Write,
)
from hetune.variants.kernel.passes.aliases import may_share, memory_of, with_kernels
from hetune.variants.kernel.walk import reads, statements, touched, writes
from hetune.variants.kernel.weighted import edges_of, pair_loop, weighted_sums
from hetune.variants.program.nodes import Space

_Body = tuple[Stmt, ...]

_LANES = 16
"""Inner products of rows that are no multiple of so many elements are left as they are."""

_HEADS = (1, 2, 4, 8)
"""Numbers that vectors hold for several edges."""


def one_pass(launch: Launch) -> Launch:
    """The launch with each softmax over nodes that allows it fused with all that it weights."""
    done: list[Kernel] = []
    rest = list(launch.kernels)
    while rest:
        kernel = rest.pop(0)
        found = _fused(kernel, rest, launch)
        if found is not None:
            kernel, taken = found
            del rest[:taken]
        done.append(kernel)
    return with_kernels(launch, done)


def _fused(kernel: Kernel, later: Sequence[Kernel], launch: Launch) -> tuple[Traversal, int] | None:
    """The traversal for a softmax and the kernels behind it, and how many these are."""
    match kernel:
        case Traversal(Rows(Space.NODE), (EdgeSoftmax(sums=()) as softmax,)):
            memory = memory_of(softmax.buffer, launch)
        case _:
            return None
    touching = [i for i, other in enumerate(later) if memory & set(touched(other))]
    flat = all(_is_narrow(part.body, softmax.shape) for part in softmax.scores)
    if not touching or not (flat or all(_is_wide(part.body) for part in softmax.scores)):
        return None
    taken = later[: touching[-1] + 1]
    pairs: dict[Rows, list[Traversal]] = {}
    nodes: list[Traversal] = []
    for other in taken:
        match other:
            case Traversal(rows=Rows(Space.NODE)):
                nodes.append(other)
            case Traversal(rows=Rows(Space.DST_PAIR) as rows):
                pairs.setdefault(rows, []).append(other)
            case _:
                return None
    loops = [_pair_loop(rows, each, softmax) for rows, each in pairs.items()]
    body = _of_nodes(join((kernel, *nodes)).body if nodes else kernel.body, softmax.buffer)
    if body is None or not all(loops):
        return None
    inits, sums, after = body
    made = (*(loop for loop in loops if loop is not None), *sums)
    weighted = [rows for loop in made for rows in edges_of(loop)]
    scored = [part.rows for part in softmax.scores]
    fits = flat or (sorted(weighted, key=str) == sorted(scored, key=str) and len(sums) < 2)
    if not fits or _reads_shares(after, memory):
        return None
    whole = replace(softmax, sums=made)
    if not _may_follow(after, whole, launch) or not _may_run_again(after, launch):
        return None
    return Traversal(kernel.rows, (*inits, whole, *after)), len(taken)


def _is_narrow(scores: Sequence[Def], shape: tuple[int, ...]) -> bool:
    """Whether scores are made of numbers, one for each head: vectors hold those of many edges."""
    made = all(s.shape == shape and not isinstance(s.expr, Inner) for s in scores)
    return made and prod(shape) in _HEADS


def _is_wide(scores: Sequence[Def]) -> bool:
    """Whether scores are inner products of rows that vectors hold without a rest."""
    shapes = {s.name: s.shape for s in scores}
    inner = [s.expr for s in scores if isinstance(s.expr, Inner)]
    return bool(inner) and all(shapes[expr.x][-1] % _LANES == 0 for expr in inner)


def _pair_loop(rows: Rows, readers: Sequence[Traversal], softmax: EdgeSoftmax) -> ForEach | None:
    """One loop over destination pairs for all that sums their edges' shares."""
    body = join(readers).body
    names = Names({softmax.name, *declared(body)})
    edges: list[Stmt] = []
    inner: Rows | None = None
    for statement in body:
        if isinstance(statement, ForEach):
            if inner not in (None, statement.rows):
                return None
            inner = statement.rows
            edges += _with_share(statement, softmax.buffer, softmax.name).body
    if inner is None:
        return None
    found = ForEach(
        rows,
        (
            *(s for s in body if isinstance(s, Init)),
            ForEach(inner, _once(edges, names)),
            *(s for s in body if not isinstance(s, Init | ForEach)),
        ),
    )
    return found if pair_loop(found, softmax.name) else None


def _once(body: Sequence[Stmt], names: Names) -> _Body:
    """The statements without definitions of what has a name already."""
    known: dict[tuple[tuple[int, ...], object], str] = {}
    same: dict[str, str] = {}
    kept: list[Stmt] = []
    for statement in body:
        (statement,) = renamed((statement,), same)
        match statement:
            case Def(name, shape, expr) if (shape, expr) in known:
                same[name] = known[shape, expr]
                continue
            case Def(name, shape, expr):
                known[shape, expr] = name
        kept.append(statement)
    return tuple(kept)


def _of_nodes(body: _Body, buffer: str) -> tuple[_Body, tuple[ForEach, ...], _Body] | None:
    """What begins sums of nodes that shares weight, the loops that add to them, and the rest."""
    softmax, *others = body
    assert isinstance(softmax, EdgeSoftmax)
    sums: dict[str, None] = {}
    loops: list[ForEach] = []
    after: list[Stmt] = []
    for statement in others:
        if isinstance(statement, ForEach) and _reads_shares((statement,), {buffer}):
            loop = _with_share(statement, buffer, softmax.name)
            added = weighted_sums(loop.body, softmax.name)
            if loop.rows.space is not Space.EDGE or not added:
                return None
            sums |= added
            loops.append(loop)
        else:
            after.append(statement)
    inits = tuple(s for s in after if isinstance(s, Init) and s.name in sums and s.reduce == "sum")
    if len(inits) != len(sums):
        return None
    return inits, tuple(loops), tuple(s for s in after if s not in inits)


def _with_share(loop: ForEach, buffer: str, share: str) -> ForEach:
    """The loop with the share as a value, instead of reading it."""
    read = Read(buffer)
    local = {s.name: share for s in loop.body if isinstance(s, Def) and s.expr == read}
    kept = tuple(s for s in loop.body if not (isinstance(s, Def) and s.name in local))
    return ForEach(loop.rows, renamed(kept, local))


def _reads_shares(body: Sequence[Stmt], memory: set[str]) -> bool:
    return any(name in memory for name, _ in reads(Traversal(Rows(Space.NODE), tuple(body))))


def _may_follow(after: _Body, softmax: EdgeSoftmax, launch: Launch) -> bool:
    """Whether a softmax's loops need nothing that they or the statements behind compute."""
    loops = Traversal(Rows(Space.NODE), (softmax,))
    written = {*writes(loops), *writes(Traversal(loops.rows, after))}
    needed = {name for name, _ in reads(loops)}
    local = {s.name for s in after if isinstance(s, Def)}
    return not local & used(softmax.sums) and not any(
        may_share(name, other, launch) for name in needed for other in written
    )


def _may_run_again(body: _Body, launch: Launch) -> bool:
    """Whether a node's statements may run twice: they change nothing that they have not stored."""
    read: set[str] = set()
    stored: set[str] = set()
    for statement in statements(body):
        match statement:
            case Def(expr=Read(buffer)) if buffer not in stored:
                read.add(buffer)
            case Write(buffer, _, accumulate) if buffer not in stored:
                if accumulate or any(may_share(buffer, other, launch) for other in read):
                    return False
                stored.add(buffer)
    return True
