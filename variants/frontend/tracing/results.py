"""What a traced call returns: rows of nodes or edges, what follows from the graph, and where."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from hetune.variants.frontend.tracing.alignment import is_rows
from hetune.variants.frontend.tracing.not_traceable import NotTraceable
from hetune.variants.frontend.tracing.recorder import ProgramRecorder
from hetune.variants.frontend.tracing.symbols import RowValue, Symbol
from hetune.variants.program.nodes import Reshape, Space


@dataclass(frozen=True, slots=True)
class ResultRows:
    """Rows of one of the program's results, ``[rows, *shape]``."""

    index: int
    shape: tuple[int, ...]
    space: Space


@dataclass(frozen=True, slots=True)
class OfGraph:
    """One of the tensors that follow from the graph alone."""

    index: int


@dataclass(frozen=True, slots=True)
class Given:
    """An argument of the call, as it is."""

    name: str


@dataclass(frozen=True, slots=True)
class Several:
    """A tuple or list."""

    kind: type
    parts: tuple[Form, ...]


Form = ResultRows | OfGraph | Given | Several | None | bool | int | float | str


class Returned:
    """Takes apart what a forward returned.

    Args:
        recorder: Of the program, which gets the results' values.
        given: What the forward was given, by name.
        result: What it returned.

    Attributes:
        names: The program's results.
        of_graph: What follows from the graph alone.
        form: What it is made of.
    """

    def __init__(self, recorder: ProgramRecorder, given: Mapping[str, Any], result: Any) -> None:
        self.names: list[str] = []
        self.of_graph: list[Tensor] = []
        self._recorder, self._given = recorder, given
        self.form = self._form(result)
        if not self.names:
            kind = type(result).__name__
            raise NotTraceable(f"it returns a {kind}, not rows of nodes or edges")

    def _form(self, value: Any) -> Form:
        if isinstance(value, Tensor):
            name = next((name for name, known in self._given.items() if known is value), None)
            if name is not None:
                return Given(name)
        if is_rows(value):
            return self._rows(value)
        if isinstance(value, Tensor) and not isinstance(value, Symbol):
            self.of_graph.append(value)
            return OfGraph(len(self.of_graph) - 1)
        if type(value) in (tuple, list):
            return Several(type(value), tuple(map(self._form, value)))
        if value is None or isinstance(value, bool | int | float | str):
            return value
        raise NotTraceable(f"it returns a {type(value).__name__}, not rows of nodes or edges")

    def _rows(self, value: Symbol) -> ResultRows:
        rows = value.meaning
        assert isinstance(rows, RowValue)
        if rows.axis != 0:
            raise NotTraceable("a result has no row for each node or edge on its first axis")
        shape = tuple(value.shape[1:])
        name = self._recorder.emit(Reshape(rows.name, (math.prod(shape),)), "out")
        if name not in self.names:
            self.names.append(name)
        return ResultRows(self.names.index(name), shape, self._recorder.types[rows.name].space)


def filled(
    form: Form, rows: Sequence[Tensor], of_graph: Sequence[Tensor], given: Mapping[str, Any]
) -> Any:
    """What a call returns.

    Args:
        form: As `Returned` found it.
        rows: The program's results.
        of_graph: What follows from the graph alone.
        given: The call's arguments by name.
    """
    match form:
        case ResultRows(index, shape):
            return rows[index].reshape(rows[index].shape[0], *shape)
        case OfGraph(index):
            return of_graph[index].clone()  # the caller's own
        case Given(name):
            return given[name]
        case Several(kind, parts):
            return kind(filled(part, rows, of_graph, given) for part in parts)
    return form
