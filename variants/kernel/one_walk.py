"""Softmaxes whose readers are sums over the same edges: one walk does all of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hetune.variants.kernel.names import Names, declared, renamed, used
from hetune.variants.kernel.nodes import (
    Apply,
    Def,
    Expr,
    ForEach,
    Init,
    Inner,
    Read,
    Stmt,
    Store,
    Update,
)
from hetune.variants.kernel.running import inits, summing
from hetune.variants.kernel.softmax import Softmax
from hetune.variants.kernel.walk import statements

_OTHER = 2
"""The degree of what is not linear."""


def one_walk(body: tuple[Stmt, ...], softmax: Softmax) -> tuple[Stmt, ...] | None:
    """The body with the softmax and the sums that it weights in one walk; None if there is none.

    Rows are summed times exponentials below the running maximum, and the sums are divided when
    all edges have been walked. Neither scores nor shares are stored: nothing else may read them.

    Where all scores of a row are -inf, what it sums is 0; torch and more walks give no number.
    """
    before, after = body[: softmax.first], body[softmax.last + 1 :]
    places = [i for i, s in enumerate(after) if _reads(s, softmax)]
    loops = [after[i] for i in places]
    end = places[-1] + 1 if places else 0
    between = tuple(after[i] for i in range(end) if i not in places)
    sums = {s.name: s for s in (*before, *between) if isinstance(s, Init)}
    totals = _weighted(loops, softmax)
    if not totals or not all(name in sums and sums[name].reduce == "sum" for name in totals):
        return None
    known_later = {s.name for s in between if isinstance(s, Def)}
    changed_later = {s.name for s in statements(after[end:]) if isinstance(s, Update)}
    if (
        not all(isinstance(s, Def | Init) for s in between)
        or known_later & used(loops)
        or totals.keys() & (used((*before, *between, *softmax.scores)) | changed_later)
    ):
        return None
    names = Names(declared(s for s in body if s not in loops))
    weighted = {name: names.fresh(f"{name}_share") for name in totals}
    return (
        *_without(before, totals),
        *inits(softmax),
        *(replace(sums[name], below=softmax.top) for name in totals),
        *(_merged(scores, loops, softmax, names) for scores in softmax.scores),
        *_without(between, totals),
        *_inverse(softmax, names),
        *(
            Def(share, sums[name].shape, Apply("mul", (softmax.inverse, name)))
            for name, share in weighted.items()
        ),
        *renamed(after[end:], weighted),
    )


def _reads(statement: Stmt, softmax: Softmax) -> bool:
    inner = statements((statement,))
    return any(isinstance(s, Def) and s.expr == Read(softmax.buffer) for s in inner)


def _without(body: tuple[Stmt, ...], names: Mapping[str, None]) -> tuple[Stmt, ...]:
    return tuple(s for s in body if not (isinstance(s, Init) and s.name in names))


def _weighted(loops: Sequence[Stmt], softmax: Softmax) -> dict[str, None]:
    """What the loops add shares times rows to, if that is all they do; else nothing."""
    totals: dict[str, None] = {}
    for loop in loops:
        if not isinstance(loop, ForEach) or loop.rows not in {s.rows for s in softmax.scores}:
            return {}
        degrees: dict[str, int] = {}
        for statement in loop.body:
            match statement:
                case Def(name, _, expr):
                    degrees[name] = _degree(expr, degrees, softmax.buffer)
                case Update(name, value) if degrees.get(value) == 1:
                    totals[name] = None
                case _:
                    return {}
    return totals


def _degree(expr: Expr, degrees: Mapping[str, int], share: str) -> int:
    """1 if the value is a multiple of an edge's share, 0 if it does not depend on it."""
    match expr:
        case Read(buffer):
            return int(buffer == share)
        case Inner(x, y):
            # It adds up heads, of which each has a divisor of its own.
            return _OTHER if degrees.get(x) or degrees.get(y) else 0
        case Apply(fn, args):
            of = [degrees.get(arg, 0) for arg in args]
            if fn == "mul":
                return sum(of)
            linear = fn == "scale" or (fn in ("add", "sub") and of[0] == of[1])
            if linear or (fn == "div" and not of[1]):
                return of[0]
            return _OTHER if any(of) else 0


def _merged(scores: ForEach, loops: Sequence[Stmt], softmax: Softmax, names: Names) -> ForEach:
    """The loop over scores with what the others do for the same edges."""
    power = names.fresh(f"{softmax.total}_term")
    summed = summing(scores, power, softmax, names)
    body: list[Stmt] = [s for s in summed if not isinstance(s, Store)]
    known = {(s.shape, s.expr): s.name for s in body if isinstance(s, Def)}
    known[softmax.shape, Read(softmax.buffer)] = power
    for loop in loops:
        if not isinstance(loop, ForEach) or loop.rows != scores.rows:
            continue
        locals_ = {s.name: names.fresh(s.name) for s in loop.body if isinstance(s, Def)}
        for statement in loop.body:
            (statement,) = renamed((statement,), locals_)
            match statement:
                case Def(name, shape, expr) if (shape, expr) in known:
                    locals_ |= {k: known[shape, expr] for k, v in locals_.items() if v == name}
                case Def(name, shape, expr):
                    known[shape, expr] = name
                    body.append(statement)
                case _:
                    body.append(statement)
    return ForEach(scores.rows, tuple(body))


def _inverse(softmax: Softmax, names: Names) -> tuple[Def, ...]:
    """One over the sum of exponentials, of which the largest is 1; without edges the sum is 0."""
    zero, one = names.fresh(f"{softmax.total}_zero"), names.fresh(f"{softmax.total}_one")
    least = names.fresh(f"{softmax.total}_least")
    shape = softmax.shape
    return (
        Def(zero, shape, Apply("scale", (softmax.total,), 0.0)),
        Def(one, shape, Apply("one_minus", (zero,))),
        Def(least, shape, Apply("max", (softmax.total, one))),
        Def(softmax.inverse, shape, Apply("reciprocal", (least,))),
    )
