"""Scores of all pairs of nodes: rows of one end and a type that meet rows of candidates.

A score of edges that reads its candidates in inner products and distances alone needs no edge for
each candidate: rows of *queries*, of one end and the type, meet *keys*, rows of the candidates.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from hetune.variants.passes.gradient import differentiate, gradient_name
from hetune.variants.passes.pipeline import clean, without_unread
from hetune.variants.passes.rewrite import users
from hetune.variants.passes.split_ends import (
    Dependence,
    Dependences,
    dependences,
    is_linear,
    split_ends,
)
from hetune.variants.program.builder import Builder
from hetune.variants.program.nodes import (
    Concat,
    Dot,
    Einsum,
    End,
    Fold,
    Let,
    Linear,
    Map,
    Op,
    Param,
    Program,
    Reshape,
    Slice,
    Space,
    Take,
    Type,
    operands,
)


@dataclass(frozen=True, slots=True)
class PairProduct:
    """Inner products of query rows with keys, summed up, and a number of each query.

    Attributes:
        slopes: An edge program whose results are the rows that meet each of `keys`. It reads keys
            as features, which are 0, and a feature `ones`, which is 1.
        keys: Names of keys.
        offset: Which result of the queries is added, if any.
        ones: A name.
    """

    slopes: Program
    keys: tuple[str, ...]
    offset: int | None
    ones: str


@dataclass(frozen=True, slots=True)
class PairDistance:
    r"""The sum of \|query + sign * key\|^power over a row's elements; inf: the largest \|...\|.

    Attributes:
        query: Which result of the queries.
        key: The key's name.
        sign: 1 or -1.
        power: Above 0.
        scale: A factor.
    """

    query: int
    key: str
    sign: int
    power: float
    scale: float


@dataclass(frozen=True, slots=True)
class PairNumber:
    """A number of each query, by the position of its result, or of each candidate, by its key."""

    of: int | str


@dataclass(frozen=True, slots=True)
class PairScore:
    """A score of edges, taken apart.

    Attributes:
        end: The end of edges that candidates are at.
        queries: An edge program: what is made of the other end and the type. It may read keys as
            features, which are 0.
        tables: Keys that are rows of one of the program's features of nodes, with its name.
        keys: A node program: all other keys, of all edges' types or of one, whose weights are then
            shared. None where there are none.
        made: The names of its results.
        by_type: Whether keys depend on types.
        leaves: What `outer` is made of, by the names of its features.
        outer: Elementwise functions of numbers.
    """

    end: End
    queries: Program
    tables: Mapping[str, str]
    keys: Program | None
    made: tuple[str, ...]
    by_type: bool
    leaves: Mapping[str, PairProduct | PairDistance | PairNumber]
    outer: Program


def separate(program: Program, end: End) -> PairScore | None:
    """Takes a score of edges apart, where anyone may be at one end of an edge.

    Args:
        program: A verified program whose result is one number of each edge.
        end: The end of edges that the candidates are at.

    Returns:
        Its parts, with as little to compute of candidates as there can be. None where candidates
        meet queries in more than inner products and distances, or other rows than those of an edge
        are read.
    """
    if program.type_of(program.result) != Type(Space.EDGE) or not is_local(program):
        return None
    program = split_ends(program, end)
    known = dependences(program, end)
    for keys in dict.fromkeys(_key_sets(program, known)):
        found = _Separation(program, known, keys, end).found()
        if found is not None:
            return found
    return None


_OPS = (Linear, Map, Dot, Reshape, Fold, Concat, Slice, Einsum, Take)
_SPACES = (Space.NODE, Space.EDGE, Space.ETYPE, Space.SHARED)


def is_local(program: Program) -> bool:
    """Whether a result depends on its own edge's ends and type alone."""
    has_own_spaces = all(kind.space in _SPACES for kind in program.types.values())
    return has_own_spaces and all(isinstance(let.op, _OPS) for let in program.lets)


def _key_sets(program: Program, known: Dependences) -> Iterator[tuple[str, ...]]:
    """Values that may be keys: rows as given; all that is made of them; and of types, too."""
    candidate = frozenset({Dependence.CANDIDATE})
    yield tuple(
        let.name
        for let in program.lets
        if isinstance(let.op, Take) and known[let.name] == candidate and let.op.end is not End.NONE
    )
    readers = users(program)
    for most in (candidate, candidate | {Dependence.TYPE}):
        yield tuple(
            let.name
            for let in program.lets
            if candidate <= known[let.name] <= most
            and (
                let.name in program.results
                or any(not known[reader.name] <= most for reader in readers[let.name])
            )
        )


def _on_nodes(program: Program) -> Program:
    """Edge rows of candidates, of one type, as rows of nodes."""
    spaces = {Space.EDGE: Space.NODE, Space.ETYPE: Space.SHARED}
    program = without_unread(clean(program))
    builder = Builder(
        replace(p, type=replace(p.type, space=spaces.get(p.type.space, p.type.space)))
        for p in program.params
    )

    def value(op: Op, hint: str) -> str:
        if isinstance(op, Take) and builder.types[op.x].space is Space.NODE:
            return op.x
        return builder.emit(replace(op, space=Space.NODE) if isinstance(op, Take) else op, hint)

    return builder.rebuilt(program, value)


class _Separation:
    """Takes a program apart at some of its values: the keys."""

    def __init__(
        self, program: Program, known: Dependences, keys: tuple[str, ...], end: End
    ) -> None:
        self._program, self._known, self._keys, self._end = program, known, keys, end
        self._types = program.types
        self._ops: dict[str, Op] = {
            let.name: let.op for let in program.lets if let.name not in keys
        }
        self._affine = self._affine_values()
        self._queries: list[str] = []
        self._leaves: dict[str, PairProduct | PairDistance | PairNumber] = {}
        self._outer: dict[str, Let] = {}

    def found(self) -> PairScore | None:
        """The parts; None where queries meet keys in more than inner products and distances."""
        program = self._program
        if not self._visit(program.result):
            return None
        made = {let.name: let.op for let in program.lets if let.name in self._keys}
        features = {param.name for param in program.params}
        tables = {
            name: op.x for name, op in made.items() if isinstance(op, Take) and op.x in features
        }
        others = tuple(name for name in made if name not in tables)
        numbers = tuple(Param(name, Type(Space.EDGE), "feature") for name in self._leaves)
        outer = replace(program, params=numbers, lets=tuple(self._outer.values()))
        keys = _on_nodes(replace(program, results=others)) if others else None
        by_type = any(Dependence.TYPE in self._known[name] for name in others)
        queries = self._above_keys(tuple(self._queries))
        return PairScore(self._end, queries, tables, keys, others, by_type, self._leaves, outer)

    def _above_keys(self, results: tuple[str, ...]) -> Program:
        """What results are made of, with keys as features."""
        program = self._program
        keys = tuple(Param(name, self._types[name], "feature") for name in self._keys)
        lets = tuple(let for let in program.lets if let.name not in self._keys)
        rows = []
        for name in results:
            row, kind = name, self._types[name]
            if kind.space is not Space.EDGE:
                row = f"{name}_of_edges"
                lets += (Let(row, replace(kind, space=Space.EDGE), Take(name, Space.EDGE)),)
            rows.append(row)
        params = (*program.params, *keys)
        return without_unread(
            clean(replace(program, params=params, lets=lets, results=tuple(rows)))
        )

    def _visit(self, name: str) -> bool:
        """Takes a number apart, as far as it is elementwise."""
        if name in self._leaves or name in self._outer:
            return True
        leaf = self._leaf(name)
        if leaf is not None:
            self._leaves[name] = leaf
            return True
        op = self._ops[name]
        if not isinstance(op, Map) or any(self._types[arg].shape for arg in op.args):
            return False
        if not all(self._visit(arg) for arg in op.args):
            return False
        self._outer[name] = Let(name, self._types[name], op)
        return True

    def _leaf(self, name: str) -> PairProduct | PairDistance | PairNumber | None:
        if Dependence.CANDIDATE not in self._known[name]:
            return PairNumber(self._query(name))
        if name in self._keys:
            return PairNumber(name)
        if name in self._affine:
            return self._product(name)
        return self._distance(name)

    def _query(self, name: str) -> int:
        if name not in self._queries:
            self._queries.append(name)
        return self._queries.index(name)

    def _affine_values(self) -> dict[str, bool]:
        """Values that are affine in keys if all else is given, and whether they have a constant."""
        affine = dict.fromkeys(self._keys, False)
        for name, op in self._ops.items():
            names = operands(op)
            moving = [i for i, arg in enumerate(names) if Dependence.CANDIDATE in self._known[arg]]
            if not moving or not all(names[i] in affine for i in moving):
                continue
            has_constant = any(affine[names[i]] for i in moving)
            match op:
                case Map(fn="add" | "sub") | Concat():
                    affine[name] = has_constant or len(moving) < len(names)
                case Map(fn="shift" | "one_minus"):
                    affine[name] = True
                case _ if len(moving) == 1 and is_linear(op, moving[0]):
                    affine[name] = has_constant
        return affine

    def _product(self, name: str) -> PairProduct:
        value = self._above_keys((name,))
        keys = tuple(param.name for param in value.params if param.name in self._keys)
        slopes = differentiate(value, keys)
        offset = self._query(name) if self._affine[name] else None
        return PairProduct(slopes, keys, offset, gradient_name(value.result))

    def _distance(self, name: str) -> PairDistance | None:
        scale = 1.0
        match self._ops[name]:
            case Dot(x, y) if x == y:
                rows, power = x, 2.0
            case Fold(x, 0, fn) if fn != "min":
                found = self._power(self._ops.get(x))
                if found is None or (fn == "max" and found[1] != 1):
                    return None
                rows, power = found
                power = math.inf if fn == "max" else power
                scale = 1 / self._types[x].shape[0] if fn == "mean" else 1.0
            case _:
                return None
        unit = self._unit(rows)
        if unit is None or len(self._types[rows].shape) != 1:
            return None
        return PairDistance(self._query(rows), *unit, power, scale)

    def _power(self, op: Op | None) -> tuple[str, float] | None:
        """What is raised to which power, of absolute values."""
        match op:
            case Map("square", (x,)):
                return x, 2.0
            case Map("mul", (x, y)) if x == y:
                return x, 2.0
            case Map("abs", (x,)):
                return x, 1.0
            case Map("pow_c", (x,), float(power)) if power > 0:
                below = self._ops.get(x)
                if isinstance(below, Map) and below.fn == "abs":
                    return below.args[0], power
                return (x, power) if power % 2 == 0 else None
        return None

    def _unit(self, name: str) -> tuple[str, int] | None:
        """The one key that is added to (1) or subtracted from (-1) rows; None if it is not so."""
        sign, shape = 1, self._types[name].shape
        while name not in self._keys:
            op = self._ops[name]
            moving = [arg for arg in operands(op) if Dependence.CANDIDATE in self._known[arg]]
            match op:
                case Map("add") if len(moving) == 1:
                    pass
                case Map("sub", (x, _)) if len(moving) == 1:
                    sign = sign if moving == [x] else -sign
                case Map("scale", _, -1.0):
                    sign = -sign
                case _:
                    return None
            (name,) = moving
        return (name, sign) if self._types[name].shape == shape else None
