"""What values depend on, of edges with anyone at one end; sums of both ends' rows in two parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from hetune.variants.program.builder import Builder
from hetune.variants.program.nodes import (
    Dot,
    End,
    Fold,
    Linear,
    Map,
    Op,
    Program,
    Reshape,
    Slice,
    Space,
    Take,
    operands,
    with_operands,
)


class Dependence(StrEnum):
    """What a value of an edge depends on."""

    CANDIDATE = "candidate"
    """The end that anyone is at."""
    QUERY = "query"
    """The other end, and the edge itself."""
    TYPE = "type"


Dependences = Mapping[str, frozenset[Dependence]]


def dependences(program: Program, end: End) -> dict[str, frozenset[Dependence]]:
    """What each value depends on, with the candidates at an end of the edges."""
    found: dict[str, frozenset[Dependence]] = {}
    for param in program.params:
        own = {Space.EDGE: {Dependence.QUERY}, Space.ETYPE: {Dependence.TYPE}}
        found[param.name] = frozenset(own.get(param.type.space, ()))
    for let in program.lets:
        found[let.name] = _dependences_of(let.op, found, end)
    return found


def _dependences_of(op: Op, known: Dependences, end: End) -> frozenset[Dependence]:
    if isinstance(op, Take) and op.end is not End.NONE:
        return frozenset({Dependence.CANDIDATE if op.end is end else Dependence.QUERY})
    return frozenset().union(*(known[name] for name in operands(op)))


def is_linear(op: Op, position: int) -> bool:
    """Whether a value is linear in one operand, if the others are given."""
    match op:
        case Map(fn="mul" | "outer" | "scale") | Dot() | Reshape() | Slice():
            return True
        case Map(fn="div") | Linear():
            return position == 0
        case Map(fn="mask"):
            return position == 1
        case Fold(fn=fn):
            return fn in ("sum", "mean")
    return False


def split_ends(program: Program, end: End) -> Program:
    """Linear maps of sums of both ends' rows, as sums of one row of each end.

    ``(h - t) @ W[r]`` becomes ``h @ W[r] - t @ W[r]``, whose second part can be had once for all
    edges of a candidate and a type.
    """
    builder = _SplitBuilder(program, end)
    return builder.rebuilt(program, builder.split)


@dataclass(frozen=True, slots=True)
class _EndSum:
    """A query's rows plus (sign 1) or minus (-1) a candidate's; either may be missing."""

    query: str | None
    candidate: str | None
    sign: int = 1


class _SplitBuilder(Builder):
    """Knows of values what they depend on, and of sums of both ends' rows the parts."""

    def __init__(self, program: Program, end: End) -> None:
        super().__init__(program.params)
        self._end = end
        self._dependences = dependences(replace(program, lets=()), end)
        self._sums: dict[str, _EndSum] = {}

    def emit(self, op: Op, hint: str) -> str:
        """A value, with what it depends on."""
        name = super().emit(op, hint)
        self._dependences[name] = _dependences_of(op, self._dependences, self._end)
        return name

    def split(self, op: Op, hint: str) -> str:
        """A value, as a sum of a part of each end if it is one."""
        parts = self._parts_of(op, hint)
        if parts is None or parts.query is None or parts.candidate is None:
            return self.emit(op, hint)
        total = Map("add" if parts.sign > 0 else "sub", (parts.query, parts.candidate))
        name = self.emit(total, hint)
        self._sums[name] = parts
        return name

    def _parts_of(self, op: Op, hint: str) -> _EndSum | None:
        names = operands(op)
        parts = [self._parts(name) for name in names]
        if isinstance(op, Map) and op.fn in ("add", "sub"):
            x, y = parts
            return None if x is None or y is None else self._total(op.fn, x, y, hint)
        mixed = [i for i, name in enumerate(names) if self._is_mixed(name)]
        others = [name for i, name in enumerate(names) if i not in mixed]
        if len(mixed) != 1 or not all(
            self._dependences[name] <= {Dependence.TYPE} for name in others
        ):
            return None
        (at,) = mixed
        total = parts[at]
        if total is None or total.query is None or total.candidate is None:
            return None
        shapes = {self.types[name].shape for name in (total.query, total.candidate, names[at])}
        if not is_linear(op, at) or len(shapes) > 1:
            return None
        query, candidate = (
            self.emit(with_operands(op, (*names[:at], part, *names[at + 1 :])), hint)
            for part in (total.query, total.candidate)
        )
        return _EndSum(query, candidate, total.sign)

    def _is_mixed(self, name: str) -> bool:
        return self._dependences[name] >= {Dependence.CANDIDATE, Dependence.QUERY}

    def _parts(self, name: str) -> _EndSum | None:
        if self._is_mixed(name):
            return self._sums.get(name)
        of_candidate = Dependence.CANDIDATE in self._dependences[name]
        return _EndSum(None, name) if of_candidate else _EndSum(name, None)

    def _total(self, fn: str, x: _EndSum, y: _EndSum, hint: str) -> _EndSum:
        query, candidate, sign = x.query, x.candidate, x.sign
        if query is None and y.query is not None:
            query = y.query if fn == "add" else self.emit(Map("scale", (y.query,), -1.0), hint)
        elif query is not None and y.query is not None:
            query = self.emit(Map(fn, (query, y.query)), hint)
        of_y = y.sign if fn == "add" else -y.sign
        if candidate is None:
            candidate, sign = y.candidate, of_y
        elif y.candidate is not None:
            both = Map("add" if sign == of_y else "sub", (candidate, y.candidate))
            candidate = self.emit(both, hint)
        return _EndSum(query, candidate, sign)
