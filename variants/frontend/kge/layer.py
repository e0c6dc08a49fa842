"""A score function with its tables of relations, as a layer that is called with triples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import torch
from torch import Tensor, nn

from hetune.variants.errors import InputError
from hetune.variants.frontend.kge.batch import check_ids

ScoreOfRows = Callable[..., Any]
"""Of the rows of one triple's head, relation and tail, and of more: its score."""


class RowPlace(StrEnum):
    """What rows of a table are of."""

    HEAD = "head"
    RELATION = "relation"
    TAIL = "tail"
    SHARED = "shared"
    """Nothing: all triples have the whole table."""


@dataclass(frozen=True, slots=True)
class ScoreArgument:
    """An argument of a score function.

    Attributes:
        parameter: Its name.
        place: What its rows are of.
        tables: The name of its table, or of several if it is a tuple of rows; None of no table.
    """

    parameter: str
    place: RowPlace
    tables: str | tuple[str, ...] | None

    @property
    def names(self) -> tuple[str, ...]:
        """Of all its tables."""
        return (self.tables,) if isinstance(self.tables, str) else self.tables or ()


class ScoreLayer(nn.Module):
    """Gives each triple of a batch its score.

    Args:
        function: Of one triple's rows.
        arguments: Its arguments in order.
        tables: Those that have no rows of entities, by name: [R, *row shape] of relations.
        options: Its other arguments, by name.

    Attributes:
        entities: Names of the tables of entities: a call gives them in this order.
    """

    def __init__(
        self,
        function: ScoreOfRows,
        arguments: tuple[ScoreArgument, ...],
        tables: Mapping[str, Tensor],
        options: Mapping[str, Any],
    ) -> None:
        super().__init__()
        self.function, self.arguments, self.options = function, arguments, dict(options)
        self.entities = names_at(arguments, RowPlace.HEAD, RowPlace.TAIL)
        self.set_weights(tables)

    def set_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Takes other tables, which are the caller's tensors."""
        for name, weight in weights.items():
            self._parameters[name] = weight  # type: ignore[assignment]

    def _get_name(self) -> str:  # what torch and warnings call it
        return str(getattr(self.function, "__name__", "score"))

    @property
    def relations(self) -> tuple[str, ...]:
        """Names of the tables of relations."""
        return names_at(self.arguments, RowPlace.RELATION)

    @property
    def num_relations(self) -> int | None:
        """R; None without tables of relations."""
        names = self.relations
        return len(self._parameters[names[0]]) if names else None  # type: ignore[arg-type]

    @property
    def tables(self) -> dict[str, Tensor]:
        """All tables but those of entities, by name."""
        return {name: table for name, table in self._parameters.items() if table is not None}

    def forward(self, heads: Tensor, rels: Tensor, tails: Tensor, *entities: Tensor) -> Tensor:
        """Runs in torch.

        Args:
            heads: Integers [B].
            rels: Integers [B].
            tails: Integers [B].
            *entities: Float [N, *row shape].

        Returns:
            Float [B].

        Raises:
            InputError: There is no entity or relation of some number.
        """
        check_ids((heads, rels, tails), len(entities[0]), self.num_relations)
        ids = {RowPlace.HEAD: heads, RowPlace.RELATION: rels, RowPlace.TAIL: tails}
        tables = {**self.tables, **dict(zip(self.entities, entities, strict=True))}

        def rows(name: str, place: RowPlace) -> Tensor:
            return tables[name] if place is RowPlace.SHARED else tables[name][ids[place].long()]

        return self.run(rows)

    def run(self, rows: Callable[[str, RowPlace], Tensor]) -> Tensor:
        """The scores of a batch.

        Args:
            rows: Gives [B, *row shape], or a shared table, by its name and place.

        Raises:
            InputError: The function returns no number for a triple.
        """
        given, axes = [], []
        for argument in self.arguments:
            found = tuple(rows(name, argument.place) for name in argument.names)
            given.append(found if isinstance(argument.tables, tuple) else next(iter(found), None))
            axes.append(0 if found and argument.place is not RowPlace.SHARED else None)
        score = torch.vmap(self._score, in_dims=tuple(axes))(*given)
        if not isinstance(score, Tensor) or score.dim() != 1:
            what = list(score.shape[1:]) if isinstance(score, Tensor) else type(score).__name__
            raise InputError(f"{self._get_name()} gives {what} for a triple: a score is one number")
        return score

    def _score(self, *rows: Any) -> Any:
        named = zip((argument.parameter for argument in self.arguments), rows, strict=True)
        return self.function(**dict(named), **self.options)


def names_at(arguments: Iterable[ScoreArgument], *places: RowPlace) -> tuple[str, ...]:
    """Names of the tables that have rows of these, each once."""
    found = (name for each in arguments if each.place in places for name in each.names)
    return tuple(dict.fromkeys(found))
