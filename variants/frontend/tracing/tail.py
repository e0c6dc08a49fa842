"""What torch makes of a program's rows, once the program has run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from hetune.variants.frontend.tracing.expressions import (
    Expression,
    called,
    evaluate,
    expressions_in,
    parameter,
)
from hetune.variants.frontend.tracing.not_traceable import LocatedNotTraceable, NotTraceable
from hetune.variants.frontend.tracing.recorder import ProgramRecorder
from hetune.variants.frontend.tracing.symbols import RowValue, Symbol, TailValue
from hetune.variants.program.nodes import Space

_ROWS, _GIVEN, _OF_GRAPH = "rows of ", "argument ", "of the graph: "
"""What the names of leaves that are no parameters begin with, which none of a parameter does."""
_NUM_NODES = parameter("number of nodes")


def rows(value: RowValue, shape: tuple[int, ...]) -> Expression:
    """Rows of the program under a tensor's shape.

    Args:
        value: Of the program.
        shape: Of the tensor, whose axis of rows is the value's.
    """
    rest = (*shape[: value.axis], *shape[value.axis + 1 :])
    found = called(torch.reshape, (parameter(_ROWS + value.name), (-1, *rest)), {})
    return called(torch.movedim, (found, 0, value.axis), {}) if value.axis else found


def side_by_side(parts: tuple[str, ...]) -> Expression:
    """Values of the program on one axis, the last."""
    return called(torch.cat, ([parameter(_ROWS + part) for part in parts], -1), {})


class TailArguments:
    """Arguments of functions that run after the program.

    Args:
        recorder: Of the program.
        given: Arguments of the call that functions may take as they are.
    """

    def __init__(self, recorder: ProgramRecorder, given: Mapping[str, object]) -> None:
        self._recorder = recorder
        self._given = {
            name: value
            for name, value in given.items()
            if isinstance(value, Tensor) and not isinstance(value, Symbol) and value.is_contiguous()
        }

    def arguments(self, value: Any, why: LocatedNotTraceable) -> Any:
        """An argument, with expressions for all tensors and for the number of nodes.

        Raises:
            NotTraceable: It depends on the graph, and is no argument of the call.
        """
        match value:
            case Symbol():
                return expression_of(value)
            case Tensor() if (found := self._view_of_argument(value, why)) is not None:
                return found
            case Tensor():
                counts = self._recorder.counts
                if not value.is_floating_point() or not value.numel():
                    raise why
                if {*value.shape} & {*counts.values()}:
                    return self._filled(value, why)
                return value
            case bool() | str():
                return value
            case int() if value == self._recorder.counts[Space.NODE]:
                return _NUM_NODES
            case torch.Size():
                return self.arguments(tuple(value), why)
            case list() | tuple():
                return type(value)(self.arguments(part, why) for part in value)
        return value

    def _view_of_argument(self, value: Tensor, why: LocatedNotTraceable) -> Expression | None:
        with torch._C.DisableTorchFunction():  # where it lies is no matter of a tape
            for name, argument in self._given.items():
                if argument.untyped_storage()._cdata == value.untyped_storage()._cdata:
                    whole = called(torch.Tensor.contiguous, (parameter(_GIVEN + name),), {})
                    first = value.storage_offset() - argument.storage_offset()
                    place = self.arguments((value.shape, value.stride(), first), why)
                    return called(_view, (whole, *place), {})
        return None

    def _filled(self, value: Tensor, why: LocatedNotTraceable) -> Expression:
        """A tensor with a row for each node, all of one number."""
        first = value.flatten()[0]
        if not torch.equal(value, first.expand(value.shape)):
            raise why
        return called(torch.Tensor.expand, (first, self.arguments(value.shape, why)), {})


def _view(of: Tensor, shape: tuple[int, ...], stride: tuple[int, ...], first: int) -> Tensor:
    return of.as_strided(shape, stride, of.storage_offset() + first)


def expression_of(found: Symbol) -> Expression:
    """What a symbol is after the program has run."""
    match found.meaning:
        case RowValue() as value:
            return rows(value, tuple(found.shape))
        case TailValue(expression):
            return expression
        case Expression() as expression:
            return expression


def outputs(result: Any, given: Mapping[str, object], of_graph: list[Tensor]) -> Any:
    """What a forward returns, with expressions for all tensors.

    Args:
        result: That, with symbols in it.
        given: Arguments of the call.
        of_graph: Gets what follows from the graph alone.

    Raises:
        NotTraceable: There is something else in it.
    """

    def part(value: Any) -> Any:
        return outputs(value, given, of_graph)

    match result:
        case Symbol():
            return expression_of(result)
        case Tensor():
            name = next((name for name, value in given.items() if value is result), None)
            if name is not None:
                return parameter(_GIVEN + name)
            of_graph.append(result)
            return called(torch.clone, (parameter(f"{_OF_GRAPH}{len(of_graph) - 1}"),), {})
        case None | bool() | int() | float() | str():
            return result
        case list() | tuple() if type(result) in (list, tuple):
            return type(result)(map(part, result))
        case dict():
            return {name: part(value) for name, value in result.items()}
    raise NotTraceable(f"it returns a {type(result).__name__}, not rows of nodes")


def leaves(output: Any) -> Iterator[str]:
    """Names of the program's values that outputs are made of, some several times."""
    for each in expressions_in(output):
        if each.func is None and each.key.startswith(_ROWS):
            yield each.key.removeprefix(_ROWS)


def key_of(output: Any) -> object:
    """Equal for equal outputs."""
    match output:
        case Expression(key=key):
            return key
        case list() | tuple():
            return type(output), tuple(map(key_of, output))
        case dict():
            return tuple((name, key_of(part)) for name, part in output.items())
    return output


def finished(
    output: Any,
    parameters: Mapping[str, Tensor],
    found: Mapping[str, Tensor],
    given: Mapping[str, Any],
    of_graph: Sequence[Tensor],
    num_nodes: int,
) -> Any:
    """What a forward returns.

    Args:
        output: What `outputs` gave.
        parameters: Of the layer.
        found: Values of the program by name, [rows, *row shape].
        given: Arguments of the call.
        of_graph: What `outputs` found to follow from the graph.
        num_nodes: N.
    """
    known: dict[str, Any] = {_NUM_NODES.key: num_nodes}
    known |= {_ROWS + name: value for name, value in found.items()}
    known |= {_GIVEN + name: value for name, value in given.items()}
    known |= {f"{_OF_GRAPH}{i}": value for i, value in enumerate(of_graph)}
    return _finished(output, parameters, known)


def _finished(output: Any, parameters: Mapping[str, Tensor], known: dict[str, Any]) -> Any:
    match output:
        case Expression():
            return evaluate(output, parameters, known)
        case list() | tuple():
            return type(output)(_finished(part, parameters, known) for part in output)
        case dict():
            return {name: _finished(part, parameters, known) for name, part in output.items()}
    return output
