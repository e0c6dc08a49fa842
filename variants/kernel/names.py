"""The names of row values: which a body declares and uses, and the same body under other names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from hetune.variants.kernel.nodes import (
    Apply,
    Def,
    EdgeSoftmax,
    Expr,
    FoldAxis,
    ForEach,
    Init,
    Inner,
    Read,
    ScoreLoop,
    Stmt,
    Traversal,
    Update,
    Write,
)
from hetune.variants.kernel.walk import statements


def declared(body: Iterable[Stmt]) -> set[str]:
    """The names that the statements define or declare, inner loops' included."""
    return set(_ordered(tuple(body)))


def used(body: Iterable[Stmt]) -> set[str]:
    """The names whose values the statements use, inner loops' included."""
    return {name for statement in statements(tuple(body)) for name in values_read(statement)}


def renamed(body: Iterable[Stmt], names: Mapping[str, str]) -> tuple[Stmt, ...]:
    """The statements with other names for the row values that are named."""
    return tuple(_renamed(statement, names) for statement in body)


class Names:
    """Hands out names that a body does not have yet."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = set(taken)

    def fresh(self, name: str) -> str:
        """The name, or one like it."""
        unique, count = name, 1
        while unique in self._taken:
            count += 1
            unique = f"{name}_{count}"
        self._taken.add(unique)
        return unique


def join(traversals: Iterable[Traversal]) -> Traversal:
    """One Traversal for several over the same rows: each row goes through all bodies.

    The later ones may read what earlier ones stored for the same row (its edges, its pairs) alone.
    """
    first, *others = traversals
    body = first.body
    for other in others:
        names = Names(declared(body))
        body += renamed(other.body, {name: names.fresh(name) for name in _ordered(other.body)})
    return Traversal(first.rows, body)


def _ordered(body: tuple[Stmt, ...]) -> Iterator[str]:
    """As `declared`, each once, in the order of the text."""
    names = (s.name for s in statements(body) if isinstance(s, Def | Init | EdgeSoftmax))
    yield from dict.fromkeys(names)


def values_read(statement: Stmt) -> tuple[str, ...]:
    """The values that a statement itself reads, not those of its loops."""
    match statement:
        case Def(expr=Apply(args=args)):
            return args
        case Def(expr=Inner(x, y)):
            return x, y
        case Def(expr=FoldAxis(x=x)):
            return (x,)
        case Update(name, value):
            return name, value
        case Write(value=value):
            return (value,)
        case EdgeSoftmax(scores=scores):
            return tuple(part.value for part in scores)
    return ()


def _renamed(statement: Stmt, names: Mapping[str, str]) -> Stmt:
    def new(name: str) -> str:
        return names.get(name, name)

    match statement:
        case Def(name, shape, expr):
            return Def(new(name), shape, _renamed_expr(expr, names))
        case Init(name):
            return replace(statement, name=new(name))
        case Update(name, value):
            return Update(new(name), new(value))
        case Write(value=value):
            return replace(statement, value=new(value))
        case ForEach(rows, body):
            return ForEach(rows, renamed(body, names))
        case EdgeSoftmax(name, scores=scores, sums=sums):
            return replace(
                statement,
                name=new(name),
                scores=tuple(_renamed_scores(part, names) for part in scores),
                sums=tuple(s for s in renamed(sums, names) if isinstance(s, ForEach)),
            )


def _renamed_scores(part: ScoreLoop, names: Mapping[str, str]) -> ScoreLoop:
    body = tuple(s for s in renamed(part.body, names) if isinstance(s, Def))
    return ScoreLoop(part.rows, body, names.get(part.value, part.value))


def _renamed_expr(expr: Expr, names: Mapping[str, str]) -> Expr:
    match expr:
        case Read():
            return expr
        case Apply(args=args):
            return replace(expr, args=tuple(names.get(arg, arg) for arg in args))
        case Inner(x, y):
            return Inner(names.get(x, x), names.get(y, y))
        case FoldAxis(x=x):
            return replace(expr, x=names.get(x, x))
