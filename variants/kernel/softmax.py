"""Finds softmaxes over a row's edges in a Traversal's body, as plans write them."""

from __future__ import annotations

from dataclasses import dataclass

from hetune.variants.kernel.names import used
from hetune.variants.kernel.nodes import (
    Apply,
    Def,
    ForEach,
    Init,
    Read,
    Stmt,
    Store,
    Update,
)
from hetune.variants.program.nodes import Space


@dataclass(frozen=True, slots=True)
class Softmax:
    """Statements ``first`` to ``last`` of a body.

    They walk the edges three times: the scores go to a buffer, and their maximum is found; then
    their exponentials go there, and are added up; then the shares.

    Attributes:
        first: Where the maximum is declared.
        last: Where the loop is that stores the shares.
        buffer: Of scores, then exponentials, then shares.
        shape: Row shape of all of these.
        top: The maximum.
        total: The sum.
        inverse: One over the sum.
        scores: The loops over groups of edges that find the maximum.
        loop: The loop that stores the shares.
    """

    first: int
    last: int
    buffer: str
    shape: tuple[int, ...]
    top: str
    total: str
    inverse: str
    scores: tuple[ForEach, ...]
    loop: ForEach


def find_softmax(body: tuple[Stmt, ...]) -> Softmax | None:
    """The first softmax of a body."""
    found = (_softmax_at(body, first) for first in range(len(body)))
    return next((softmax for softmax in found if softmax is not None), None)


def score_of(loop: ForEach, buffer: str, top: str) -> str | None:
    """The value that a loop of straight code both stores and takes the maximum of."""
    stores = [s for s in loop.body if isinstance(s, Store)]
    updates = [s for s in loop.body if isinstance(s, Update)]
    if any(isinstance(s, ForEach | Init) for s in loop.body):
        return None
    if len(stores) != 1 or len(updates) != 1 or loop.rows.space is not Space.EDGE:
        return None
    score = stores[0].value
    return score if (stores[0], updates[0]) == (Store(buffer, score), Update(top, score)) else None


def _softmax_at(body: tuple[Stmt, ...], first: int) -> Softmax | None:
    loops = first + 1
    while loops < len(body) and isinstance(body[loops], ForEach):
        loops += 1
    match body[first], body[loops : loops + 4]:
        case (
            Init(top, shape, "max"),
            (
                Init(total, reduce="sum", below="") as start,
                ForEach(body=(Def(raw, _, Read(buffer)), *_)) as powers,
                Def(inverse) as invert,
                ForEach(body=(Def(held), Def(share), *_)) as shares,
            ),
        ):
            pass
        case _:
            return None
    scores = tuple(s for s in body[first + 1 : loops] if isinstance(s, ForEach))
    names = [s.name for s in powers.body if isinstance(s, Def)]
    if len(names) != 3:
        return None
    _, below, power = names
    wanted = (
        Init(total, shape, "sum"),
        ForEach(
            powers.rows,
            (
                Def(raw, shape, Read(buffer)),
                Def(below, shape, Apply("sub", (raw, top))),
                Def(power, shape, Apply("exp", (below,))),
                Store(buffer, power),
                Update(total, power),
            ),
        ),
        Def(inverse, shape, Apply("reciprocal", (total,))),
        ForEach(
            powers.rows,
            (
                Def(held, shape, Read(buffer)),
                Def(share, shape, Apply("mul", (held, inverse))),
                Store(buffer, share),
            ),
        ),
    )
    if (start, powers, invert, shares) != wanted or powers.rows.space is not Space.EDGE:
        return None
    if not scores or any(score_of(loop, buffer, top) is None for loop in scores):
        return None
    if len({loop.rows for loop in scores}) < len(scores):
        return None
    last = loops + 3
    if {top, total, inverse} & used((*body[:first], *body[last + 1 :])):
        return None
    return Softmax(first, last, buffer, shape, top, total, inverse, scores, shares)
