"""Which loops add multiples of a value to sums, and do nothing else."""

from __future__ import annotations

from collections.abc import Mapping

from hetune.variants.kernel.nodes import (
    Apply,
    Def,
    Expr,
    FoldAxis,
    ForEach,
    Init,
    Inner,
    Read,
    Rows,
    Stmt,
    Update,
    Write,
)
from hetune.variants.program.nodes import Space

_OTHER = 2
"""The degree of what is not linear."""


def weighted_sums(body: tuple[Stmt, ...], share: str) -> dict[str, None] | None:
    """The sums that a body adds multiples of a value to; None if it does anything else.

    Args:
        body: Statements of a loop.
        share: The value, one number for each head.
    """
    sums: dict[str, None] = {}
    degrees = {share: 1}
    for statement in body:
        match statement:
            case Def(name, _, expr):
                degrees[name] = _degree(expr, degrees)
            case Update(name, value) if degrees.get(value) == 1:
                sums[name] = None
            case _:
                return None
    return sums


def pair_loop(loop: ForEach, share: str) -> bool:
    """Whether a loop over pairs does nothing but store sums of edges that a share weights."""
    inits, edges, stores = [], [], []
    for statement in loop.body:
        match statement:
            case Init(name, _, "sum"):
                inits.append(name)
            case ForEach():
                edges.append(statement)
            case Write(value=value, accumulate=False):
                stores.append(value)
            case _:
                return False
    sums = weighted_sums(edges[0].body, share) if len(edges) == 1 else None
    known = set(sums or ()) == set(inits) == set(stores)
    return loop.rows.space is Space.DST_PAIR and bool(sums) and known


def edges_of(loop: ForEach) -> list[Rows]:
    """The edges that a loop of sums walks."""
    if loop.rows.space is Space.EDGE:
        return [loop.rows]
    return [s.rows for s in loop.body if isinstance(s, ForEach)]


def _degree(expr: Expr, degrees: Mapping[str, int]) -> int:
    """1 if the value is a multiple of an edge's share, 0 if it does not depend on it."""
    match expr:
        case Read():
            return 0
        case Inner(x, y):
            # It adds up heads, of which each has a divisor of its own.
            return _OTHER if degrees.get(x) or degrees.get(y) else 0
        case FoldAxis(x=x):
            return _OTHER if degrees.get(x) else 0
        case Apply(fn, args):
            of = [degrees.get(arg, 0) for arg in args]
            if fn == "mul":
                return sum(of)
            linear = fn == "scale" or (fn in ("add", "sub") and of[0] == of[1])
            if linear or (fn == "div" and not of[1]):
                return of[0]
            return _OTHER if any(of) else 0
