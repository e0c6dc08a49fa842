"""Torch's broadcasting, which aligns last axes, as a program's, which aligns first ones."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from hetune.variants.frontend.tracing.expressions import Expression, called, fixed
from hetune.variants.frontend.tracing.not_traceable import NotTraceable
from hetune.variants.frontend.tracing.recorder import ProgramRecorder
from hetune.variants.frontend.tracing.symbols import RowValue, Symbol, TailValue
from hetune.variants.program.nodes import End, Map, Reshape, Space, Take, Type

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Aligned:
    """Operands of an elementwise function as values of the program.

    Attributes:
        names: Of the operands, each row shape a prefix of the longest one.
        shape: Row shape that the result gets in the end.
        axis: The result's axis of rows.
    """

    names: tuple[str, ...]
    shape: Shape
    axis: int


def align(recorder: ProgramRecorder, operands: Sequence[Tensor], shape: Shape) -> Aligned:
    """Operands of a function whose result has a shape; one of them at least has rows."""
    axes = {rows_of(t).axis - t.dim() for t in operands if is_rows(t)}
    if len(axes) != 1:
        raise NotTraceable("rows of two tensors lie on different axes: only equal ones join")
    axis = axes.pop() + len(shape)
    kinds = {recorder.types[rows_of(t).name].with_shape() for t in operands if is_rows(t)}
    if len(kinds) != 1:
        raise NotTraceable("rows of nodes or edges meet others: index them by an end of the edges")
    kind = kinds.pop()
    whole = _without(shape, axis)
    narrow = [tensor if isinstance(tensor, Symbol) else narrowed(tensor) for tensor in operands]
    names = tuple(
        _named(recorder, tensor, _padded(tensor, len(shape)), axis, kind, whole)
        for tensor in narrow
    )
    return Aligned(names, squeezed(whole), axis)


def squeezed(shape: Iterable[int]) -> Shape:
    """Without axes of one element, as all row shapes of traced values are."""
    return tuple(extent for extent in shape if extent != 1)


def row_shape(shape: Shape, axis: int) -> Shape:
    """The row shape of the value that a tensor with rows on an axis is."""
    return squeezed(_without(shape, axis))


def _without(shape: Shape, axis: int) -> Shape:
    return (*shape[:axis], *shape[axis + 1 :])


def is_rows(tensor: object) -> bool:
    """Whether a tensor has a row for each node or edge, as a value of the program."""
    return isinstance(tensor, Symbol) and isinstance(tensor.meaning, RowValue)


def rows_of(tensor: object) -> RowValue:
    """What a symbol with rows is."""
    if isinstance(tensor, Symbol) and isinstance(tensor.meaning, TailValue):
        raise tensor.meaning.why
    if not isinstance(tensor, Symbol) or not isinstance(tensor.meaning, RowValue):
        raise NotTraceable("an operand has no rows of nodes or edges")
    return tensor.meaning


def rows_named(recorder: ProgramRecorder, tensor: Tensor, kind: Type, axis: int) -> str:
    """A tensor's value; what follows from the graph alone becomes a constant.

    Args:
        recorder: Of the program.
        tensor: Of symbols or numbers, with rows on an axis.
        kind: What there is a row for.
        axis: Which axis, where the tensor is of numbers.
    """
    if isinstance(tensor, Symbol):
        assert isinstance(tensor.meaning, RowValue)
        return tensor.meaning.name
    rows = tensor.movedim(axis, 0)
    rows = rows.reshape(-1, *squeezed(rows.shape[1:]))
    if kind.space is Space.SRC_PAIR:  # the rows of sources that have edges
        name = recorder.constant(rows, Space.SOURCE)
        return recorder.emit(Take(name, Space.SRC_PAIR, End.SRC), f"{name}_with_edges")
    return recorder.constant(rows, kind.space, kind.group)


def narrowed(tensor: Tensor) -> Tensor:
    """Without copies along axes on which it was expanded."""
    for axis in range(tensor.dim()):
        if tensor.stride(axis) == 0 and tensor.shape[axis] > 1:
            tensor = tensor.narrow(axis, 0, 1)
    return tensor


def _padded(tensor: Tensor, rank: int) -> Shape:
    return (*[1] * (rank - tensor.dim()), *tensor.shape)


def _depth(dims: Shape) -> int:
    """Axes up to the last one that is longer than 1."""
    return max((i + 1 for i, extent in enumerate(dims) if extent != 1), default=0)


def _named(
    recorder: ProgramRecorder, tensor: Tensor, dims: Shape, axis: int, kind: Type, whole: Shape
) -> str:
    row = _without(dims, axis)
    row = tuple(extent for extent, longest in zip(row, whole, strict=True) if longest != 1)
    whole = squeezed(whole)
    if is_rows(tensor):
        name = rows_named(recorder, tensor, kind, axis)
        return _fitted(recorder, name, row, whole)
    if isinstance(tensor, Symbol):
        assert isinstance(tensor.meaning, Expression)
        if dims[axis] != 1:
            raise NotTraceable("a parameter has a row for each node: give it as an input")
        return _weight(recorder, tensor.meaning, row, whole)
    if dims[axis] == recorder.count_of(kind) and dims[axis] != 1:
        dims = (*dims[:axis], -1, *dims[axis + 1 :])
        name = rows_named(recorder, tensor.expand(dims), kind, axis)
        return _fitted(recorder, name, row, whole)
    if dims[axis] != 1:
        raise NotTraceable(f"{dims[axis]} numbers meet {recorder.count_of(kind)} rows")
    return _weight(recorder, fixed(tensor), row, whole)


def _fitted(recorder: ProgramRecorder, name: str, row: Shape, whole: Shape) -> str:
    """Rows whose shape is a prefix of the whole one; repeated where they have axes of 1 in it."""
    row = row[: _depth(row)]
    target = whole[: len(row)]
    if row == target:
        return name
    start = next(i for i, extent in enumerate(row) if extent != target[i])
    stop = next(i for i in range(start, len(row)) if row[i] != 1)
    if (*row[:start], *target[start:stop], *row[stop:]) != target:
        raise NotTraceable(
            f"rows of {list(row)} are broadcast to {list(target)}: on axes side by side"
        )
    heads, times, rest = (math.prod(each) for each in (row[:start], target[start:stop], row[stop:]))
    lead = (heads,) if heads > 1 else ()
    ones = torch.ones(*lead, times)
    weight = recorder.weight(fixed(ones), tuple(ones.shape))
    flat = recorder.emit(Reshape(name, (*lead, rest)), "reshape")
    outer = recorder.emit(Map("outer", (weight, flat)), "repeat")
    return recorder.emit(Reshape(outer, target), "reshape")


def _weight(recorder: ProgramRecorder, expression: Expression, row: Shape, whole: Shape) -> str:
    row = row[: _depth(row)]
    target = whole[: len(row)]
    viewed = called(torch.Tensor.reshape, (expression, row), {})
    if row != target:
        viewed = called(torch.Tensor.expand, (viewed, target), {})
    return recorder.weight(viewed, target)
