"""Softmaxes with a running maximum: the sum of exponentials grows in the loop over the scores."""

from __future__ import annotations

from hetune.variants.kernel.names import Names, declared
from hetune.variants.kernel.nodes import Apply, Def, ForEach, Init, Read, Stmt, Update
from hetune.variants.kernel.softmax import Softmax, score_of


def shares_stored(body: tuple[Stmt, ...], softmax: Softmax) -> tuple[Stmt, ...]:
    """The shares come from one more reading of the scores, instead of two."""
    names = Names(declared(body))
    held = softmax.loop.body[0]
    assert isinstance(held, Def)
    loop = ForEach(
        softmax.loop.rows, (*_power_read(held.name, softmax, names), *softmax.loop.body[1:])
    )
    head, tail = _around(body, softmax, names)
    return (*head, loop, *tail)


def shares_where_read(body: tuple[Stmt, ...], softmax: Softmax) -> tuple[Stmt, ...]:
    """The shares are never stored: who read them compute them from the scores."""
    names = Names(declared(body))
    head, tail = _around(body, softmax, names)
    return (*head, *_computing(tail, softmax, names))


def inits(softmax: Softmax) -> tuple[Stmt, ...]:
    """The maximum and the sum below it."""
    top = Init(softmax.top, softmax.shape, "max")
    return top, Init(softmax.total, softmax.shape, "sum", softmax.top)


def powers(score: str, power: str, softmax: Softmax, names: Names) -> tuple[Stmt, ...]:
    """Names a score's exponential below the maximum."""
    below = names.fresh(f"{power}_below")
    return (
        Def(below, softmax.shape, Apply("sub", (score, softmax.top))),
        Def(power, softmax.shape, Apply("exp", (below,))),
    )


def summing(loop: ForEach, power: str, softmax: Softmax, names: Names) -> tuple[Stmt, ...]:
    """The body of a loop over scores that adds up their exponentials as well."""
    score = score_of(loop, softmax.buffer, softmax.top)
    assert score is not None
    return (*loop.body, *powers(score, power, softmax, names), Update(softmax.total, power))


def _around(
    body: tuple[Stmt, ...], softmax: Softmax, names: Names
) -> tuple[tuple[Stmt, ...], tuple[Stmt, ...]]:
    """What comes before the shares are needed, and what comes after they were stored."""
    power = names.fresh(f"{softmax.total}_term")
    loops = (ForEach(loop.rows, summing(loop, power, softmax, names)) for loop in softmax.scores)
    inverse = Def(softmax.inverse, softmax.shape, Apply("reciprocal", (softmax.total,)))
    head = (*body[: softmax.first], *inits(softmax), *loops, inverse)
    return head, body[softmax.last + 1 :]


def _power_read(name: str, softmax: Softmax, names: Names) -> tuple[Stmt, ...]:
    score = names.fresh(f"{name}_score")
    return (
        Def(score, softmax.shape, Read(softmax.buffer)),
        *powers(score, name, softmax, names),
    )


def _computing(body: tuple[Stmt, ...], softmax: Softmax, names: Names) -> list[Stmt]:
    made: list[Stmt] = []
    for statement in body:
        match statement:
            case Def(name, shape, Read(softmax.buffer)):
                power = names.fresh(f"{name}_power")
                made += _power_read(power, softmax, names)
                made.append(Def(name, shape, Apply("mul", (power, softmax.inverse))))
            case ForEach(rows, inner):
                made.append(ForEach(rows, tuple(_computing(inner, softmax, names))))
            case _:
                made.append(statement)
    return made
