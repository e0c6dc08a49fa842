"""The loops that an `EdgeSoftmax` is printed as: three passes over the edges, or a running maximum.

What is read of an edge may be in memory again by the next pass, and CPUs find it in a cache: they
take three passes. GPUs let the maximum run (Milakov and Gimelshein 2018, "Online normalizer
calculation for softmax"): when it grows, what has been summed below it shrinks by
``exp(old - new)``. One pass finds maximum and total; where the shares are only weights of sums
over the same edges, it finds these, too.

What is printed so is no launch any more: sums are ``below`` a maximum that is read while it grows.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace

from hetune.variants.kernel.names import Names, declared, renamed
from hetune.variants.kernel.nodes import (
    Apply,
    Def,
    EdgeSoftmax,
    ForEach,
    Init,
    Inner,
    Kernel,
    Launch,
    Read,
    ScoreLoop,
    Stmt,
    Traversal,
    Update,
    Write,
)
from hetune.variants.kernel.weighted import weighted_sums
from hetune.variants.program.nodes import Space

Body = tuple[Stmt, ...]
Form = Callable[[Body, int], Body]
"""From a body and the place of a softmax in it to the body with loops in its place."""


@functools.lru_cache(maxsize=4096)
def expanded(launch: Launch, form: Form) -> Launch:
    """The launch with plain loops in the place of each softmax."""
    kernels = tuple(_expanded(kernel, form) for kernel in launch.kernels)
    return launch if kernels == launch.kernels else replace(launch, kernels=kernels)


def three_passes(body: Body, place: int) -> Body:
    """Scores and their maximum, then exponentials and their sum, then shares: each is stored.

    Sums that shares weight are loops of their own behind.
    """
    softmax, names = _at(body, place), Names(declared(body))
    name, shape, buffer = softmax.name, softmax.shape, softmax.buffer
    top, total, inverse = (names.fresh(f"{name}_{what}") for what in ("max", "total", "inverse"))
    score, below, power, held, share = (
        names.fresh(f"{name}_{what}")
        for what in ("score", "score_below", "power", "power_read", "share")
    )
    return (
        *body[:place],
        Init(top, shape, "max"),
        *(
            ForEach(part.rows, (*part.body, Write(buffer, part.value), Update(top, part.value)))
            for part in softmax.scores
        ),
        Init(total, shape, "sum"),
        ForEach(
            softmax.rows,
            (
                Def(score, shape, Read(buffer)),
                Def(below, shape, Apply("sub", (score, top))),
                Def(power, shape, Apply("exp", (below,))),
                Write(buffer, power),
                Update(total, power),
            ),
        ),
        Def(inverse, shape, Apply("reciprocal", (total,))),
        ForEach(
            softmax.rows,
            (
                Def(held, shape, Read(buffer)),
                Def(share, shape, Apply("mul", (held, inverse))),
                Write(buffer, share),
            ),
        ),
        *(_reading(loop, Def(name, shape, Read(buffer))) for loop in softmax.sums),
        *body[place + 1 :],
    )


def from_powers(body: Body, place: int) -> Body:
    """What is left to do where the softmax's buffer has exponentials of the scores already."""
    softmax, names = _at(body, place), Names(declared(body))
    name, shape, buffer = softmax.name, softmax.shape, softmax.buffer
    total, inverse, power = (
        names.fresh(f"{name}_{what}") for what in ("total", "inverse", "power")
    )
    read = Def(power, shape, Read(buffer))
    share = Def(name, shape, Apply("mul", (power, inverse)))
    return (
        *body[:place],
        Init(total, shape, "sum"),
        ForEach(softmax.rows, (read, Update(total, power))),
        Def(inverse, shape, Apply("reciprocal", (total,))),
        *(_reading(loop, read, share) for loop in softmax.sums),
        *body[place + 1 :],
    )


def if_moderate(body: Body, place: int) -> Body:
    """What CPUs do where no score is large, except that rows are summed times shares at once.

    Exponentials of scores that are numbers are stored, then summed. Scores that are products of
    rows are summed in one pass. What no sum takes in is three passes.
    """
    softmax = _at(body, place)
    if not softmax.sums:
        return three_passes(body, place)
    scoring = (statement for part in softmax.scores for statement in part.body)
    if not any(isinstance(statement.expr, Inner) for statement in scoring):
        power = Names(declared(body)).fresh(f"{softmax.name}_power")
        stored = (
            ForEach(
                part.rows, (*part.body, _exp(power, softmax, part), Write(softmax.buffer, power))
            )
            for part in softmax.scores
        )
        rest = from_powers(body, place)
        return (*rest[:place], *stored, *rest[place:])
    names = Names(declared(body))
    total = names.fresh(f"{softmax.name}_total")
    parts = {part.rows: part for part in softmax.scores}

    def summed(loop: ForEach) -> ForEach:
        if loop.rows.space is not Space.EDGE:
            inner = (summed(s) if isinstance(s, ForEach) else s for s in loop.body)
            return ForEach(loop.rows, tuple(inner))
        part = parts[loop.rows]
        begun: Body = (*part.body, _exp(softmax.name, softmax, part), Update(total, softmax.name))
        return ForEach(loop.rows, _joined(begun, loop.body, {}, names))

    loops = map(summed, softmax.sums)
    return (*body[:place], Init(total, softmax.shape, "sum"), *loops, *body[place + 1 :])


def _exp(name: str, softmax: EdgeSoftmax, part: ScoreLoop) -> Def:
    return Def(name, softmax.shape, Apply("exp", (part.value,)))


def _joined(begun: Body, body: Body, known_as: dict[str, str], names: Names) -> Body:
    """A loop's statements behind others, without what these compute; its values are renamed."""
    found = list(begun)
    known = {(s.shape, s.expr): s.name for s in found if isinstance(s, Def)}
    locals_ = {s.name: names.fresh(s.name) for s in body if isinstance(s, Def)} | known_as
    for statement in body:
        (statement,) = renamed((statement,), locals_)
        match statement:
            case Def(name, shape, expr) if (shape, expr) in known:
                locals_ |= {k: known[shape, expr] for k, v in locals_.items() if v == name}
            case Def(name, shape, expr):
                known[shape, expr] = name
                found.append(statement)
            case _:
                found.append(statement)
    return tuple(found)


def _reading(loop: ForEach, *share: Def) -> ForEach:
    """A loop of sums that reads the shares."""
    if loop.rows.space is Space.EDGE:
        return ForEach(loop.rows, (*share, *loop.body))
    inner = (_reading(s, *share) if isinstance(s, ForEach) else s for s in loop.body)
    return ForEach(loop.rows, tuple(inner))


def running_maximum(body: Body, place: int) -> Body:
    """One pass for maximum, total and sums; or one, and shares from the scores that it has stored.

    Where all scores of a row are -inf, what it sums in one pass is 0; torch gives no number.
    """
    return _Running(body, place).body()


class _Running:
    def __init__(self, body: Body, place: int) -> None:
        self._before, self._after = body[:place], body[place + 1 :]
        self._softmax = softmax = _at(body, place)
        self._in_one = bool(softmax.sums) and not softmax.buffer
        # Loops that one pass takes in are renamed.
        outside = replace(softmax, sums=()) if self._in_one else softmax
        self._names = names = Names(declared((*self._before, outside, *self._after)))
        self._top, self._total, self._inverse = (
            names.fresh(f"{softmax.name}_{what}") for what in ("max", "total", "inverse")
        )

    def body(self) -> Body:
        softmax = self._softmax
        inits = (
            Init(self._top, softmax.shape, "max"),
            Init(self._total, softmax.shape, "sum", self._top),
        )
        if self._in_one:
            return (*inits, *self._summed())
        loops = (ForEach(part.rows, self._scored(part)) for part in softmax.scores)
        inverse = self._define(self._inverse, "reciprocal", self._total)
        return (*self._before, *inits, *loops, inverse, *self._shared(), *self._after)

    def _shared(self) -> Body:
        """The loops that need the shares."""
        softmax, name = self._softmax, self._softmax.name
        if softmax.sums:
            power = self._names.fresh(f"{name}_power")
            share = self._define(name, "mul", power, self._inverse)
            return tuple(
                ForEach(loop.rows, (*self._power_read(power), share, *loop.body))
                for loop in softmax.sums
            )
        power = self._names.fresh(f"{name}_power_read")
        read, found = self._power_read(power), self._names.fresh(f"{name}_share")
        share = self._define(found, "mul", power, self._inverse)
        return (ForEach(softmax.rows, (*read, share, Write(softmax.buffer, found))),)

    def _summed(self) -> Body:
        """Everything in one pass: rows are summed times exponentials, and divided at the end."""
        softmax, names = self._softmax, self._names
        sums: dict[str, None] = {}
        for loop in softmax.sums:
            sums |= weighted_sums(loop.body, softmax.name) or {}
        inits = {s.name: s for s in self._before if isinstance(s, Init) and s.name in sums}
        shares = {name: names.fresh(f"{name}_share") for name in sums}
        return (
            *(
                replace(s, below=self._top) if isinstance(s, Init) and s.name in sums else s
                for s in self._before
            ),
            *(self._merged(part) for part in softmax.scores),
            *self._safe_inverse(),
            *(
                Def(share, inits[name].shape, Apply("mul", (self._inverse, name)))
                for name, share in shares.items()
            ),
            *renamed(self._after, shares),
        )

    def _define(self, name: str, fn: str, *args: str, const: float | None = None) -> Def:
        return Def(name, self._softmax.shape, Apply(fn, args, const))

    def _powers(self, score: str, power: str) -> tuple[Def, ...]:
        """Names a score's exponential below the maximum."""
        below = self._names.fresh(f"{power}_below")
        return self._define(below, "sub", score, self._top), self._define(power, "exp", below)

    def _power_read(self, power: str) -> tuple[Def, ...]:
        softmax, score = self._softmax, self._names.fresh(f"{power}_score")
        return Def(score, softmax.shape, Read(softmax.buffer)), *self._powers(score, power)

    def _scored(self, part: ScoreLoop) -> Body:
        """A loop that stores scores, and adds up their exponentials as well."""
        power = self._names.fresh(f"{self._total}_term")
        return (
            *part.body,
            Write(self._softmax.buffer, part.value),
            *self._added(part.value, power),
        )

    def _added(self, score: str, power: str) -> Body:
        return (
            Update(self._top, score),
            *self._powers(score, power),
            Update(self._total, power),
        )

    def _merged(self, part: ScoreLoop) -> ForEach:
        """The loop over scores with what the sums do for the same edges."""
        power = self._names.fresh(f"{self._total}_term")
        body: Body = (*part.body, *self._added(part.value, power))
        for loop in self._softmax.sums:
            if loop.rows == part.rows:
                body = _joined(body, loop.body, {self._softmax.name: power}, self._names)
        return ForEach(part.rows, body)

    def _safe_inverse(self) -> Body:
        """One over the sum of exponentials, the largest of which is 1; it is 0 without edges."""
        total, fresh = self._total, self._names.fresh
        zero, one, least = (fresh(f"{total}_{what}") for what in ("zero", "one", "least"))
        return (
            self._define(zero, "scale", total, const=0.0),
            self._define(one, "one_minus", zero),
            self._define(least, "maximum", total, one),
            self._define(self._inverse, "reciprocal", least),
        )


def _expanded(kernel: Kernel, form: Form) -> Kernel:
    while isinstance(kernel, Traversal):
        body = kernel.body
        place = next((i for i, s in enumerate(body) if isinstance(s, EdgeSoftmax)), None)
        if place is None:
            break
        kernel = replace(kernel, body=form(body, place))
    return kernel


def _at(body: Body, place: int) -> EdgeSoftmax:
    found = body[place]
    assert isinstance(found, EdgeSoftmax)
    return found
