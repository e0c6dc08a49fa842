"""Which tables a score function's arguments are rows of."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from inspect import Signature
from typing import Any

from torch import Tensor, nn

from hetune.variants.errors import InputError
from hetune.variants.frontend.kge.layer import RowPlace, ScoreArgument, names_at

Tables = Tensor | tuple[Tensor, ...]
"""One, or several for a tuple of rows."""
_PLAIN = (bool, int, float, str)


@dataclass(frozen=True, slots=True, eq=False)
class ScoreTables:
    """The tables of a call.

    Attributes:
        arguments: Of the score function.
        entities: [N, *row shape] by name.
        weights: The other tables: [R, *row shape] of relations, or shared.
        options: The function's arguments that are no tensors.
    """

    arguments: tuple[ScoreArgument, ...]
    entities: Mapping[str, Tensor]
    weights: Mapping[str, Tensor]
    options: Mapping[str, Any]
    _kind: Hashable = None

    @property
    def num_entities(self) -> int:
        """N."""
        return len(next(iter(self.entities.values())))

    @property
    def num_relations(self) -> int | None:
        """R; None without tables of relations."""
        names = names_at(self.arguments, RowPlace.RELATION)
        return len(self.weights[names[0]]) if names else None

    @property
    def kind(self) -> Hashable:
        """Equal for tables that one program is for, on one device, whatever their numbers."""
        if self._kind is not None:
            return self._kind
        rows = tuple((name, t.shape[1:], t.device) for name, t in self.entities.items())
        kinds = tuple((name, w.shape, w.dtype, w.device) for name, w in self.weights.items())
        return self.arguments, rows, kinds, tuple(self.options.items())


class TableShapes:
    """What tables of a call were: others like them are bound without a look at the function.

    Args:
        bound: What `bound_tables` made of the call's tables.
        given: These, by their arguments' names.
    """

    def __init__(self, bound: ScoreTables, given: Mapping[str, Any]) -> None:
        self._arguments, self._options, self._kind = bound.arguments, bound.options, bound.kind
        self._entities, self._weights = tuple(bound.entities), tuple(bound.weights)
        self._looks = {name: _look(value) for name, value in given.items()}
        self._has_tuples = any(isinstance(value, tuple) for value in given.values())

    def bound(self, given: Mapping[str, Any]) -> ScoreTables | None:
        """The tables of another call, or None if one differs in more than its numbers."""
        looks = self._looks
        if len(given) != len(looks):
            return None
        for name, value in given.items():
            look = looks.get(name)
            if look is None or look != _look(value):
                return None
        tables = dict(named(given)) if self._has_tuples else given
        entities = {name: tables[name] for name in self._entities}
        weights = {name: tables[name] for name in self._weights}
        return ScoreTables(self._arguments, entities, weights, self._options, self._kind)


def named(given: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """What is given by the names of tables: parts of tuples have names of their own."""
    for name, value in given.items():
        if isinstance(value, tuple):
            yield from ((f"{name}_{i}", part) for i, part in enumerate(value))
        else:
            yield name, value


def _look(value: Any) -> tuple[object, ...] | None:
    """Equal for tables of one shape on one device, and for equal options; None of others."""
    kind = type(value)
    if kind is tuple:
        looks = tuple(map(_look, value))
        return None if None in looks else looks
    if kind is Tensor or kind is nn.Parameter:
        return value.shape, value.dtype, value.device
    return (kind, value) if kind in _PLAIN else None


def bound_tables(
    signature: Signature,
    shared: frozenset[str],
    entity: Tables,
    tail: Tables | None,
    given: Mapping[str, Any],
) -> ScoreTables:
    """The tables that a call gives for a function's arguments.

    Args:
        signature: Of the function.
        shared: Arguments that are the same for all triples.
        entity: Of heads, and of tails unless these have others.
        tail: Of tails, if so.
        given: For the other arguments, by name.

    Raises:
        InputError: One is missing or unknown, or has another number of rows.
    """
    parameters = signature.parameters
    head, relation, last, *others = parameters
    if unknown := [name for name in given if name not in (relation, *others)]:
        raise InputError(f"there is no argument {unknown[0]!r}: give {', '.join(others) or 'none'}")
    for name in (relation, *others):
        if name not in given and parameters[name].default is Signature.empty:
            raise InputError(f"{name} is missing: give a table of relations [R, *row shape]")
    of_tails = ("entity", entity) if tail is None else ("tail", tail)
    rows = [
        (head, RowPlace.HEAD, "entity", entity),
        (relation, RowPlace.RELATION, relation, given.get(relation)),
        (last, RowPlace.TAIL, *of_tails),
    ]
    options = {}
    for name in others:
        if _is_tables(value := given.get(name)):
            place = RowPlace.SHARED if name in shared else RowPlace.RELATION
            rows.append((name, place, name, value))
        elif name in given:
            options[name] = value
    arguments: list[ScoreArgument] = []
    named: dict[RowPlace, dict[str, Tensor]] = {}
    for parameter, place, name, value in rows:
        if not _is_tables(value) and (value is not None or place is not RowPlace.RELATION):
            raise InputError(f"{name} is no tensor or tuple of tensors: {type(value).__name__}")
        arguments.append(ScoreArgument(parameter, place, _names(name, value)))
        tensors = (value,) if isinstance(value, Tensor) else value or ()
        named.setdefault(place, {}).update(zip(arguments[-1].names, tensors, strict=True))
    names = [name for each in arguments if each.place is not RowPlace.TAIL for name in each.names]
    names += arguments[2].names if tail is not None else ()
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"two tables are named {twice}: rename an argument")
    entities = {**named[RowPlace.HEAD], **named[RowPlace.TAIL]}
    _check_rows("entities", entities)
    _check_rows("relations", named[RowPlace.RELATION])
    weights = {**named[RowPlace.RELATION], **named.get(RowPlace.SHARED, {})}
    return ScoreTables(tuple(arguments), entities, weights, options)


def _is_tables(value: object) -> bool:
    if isinstance(value, tuple):
        return bool(value) and all(isinstance(part, Tensor) for part in value)
    return isinstance(value, Tensor)


def _names(name: str, value: Tables | None) -> str | tuple[str, ...] | None:
    if isinstance(value, tuple):
        return tuple(f"{name}_{i}" for i in range(len(value)))
    return None if value is None else name


def _check_rows(what: str, tables: Mapping[str, Tensor]) -> None:
    for name, table in tables.items():
        if not table.dim():
            raise InputError(f"{name} is no table: give a tensor [{what}, *row shape]")
    if len({len(table) for table in tables.values()}) > 1:
        counts = ", ".join(f"{name} {len(table)}" for name, table in tables.items())
        raise InputError(f"tables have rows of as many {what} each, not {counts}")
