"""Functions that rearrange the elements of each row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import itemgetter
from typing import Any

import torch
from torch import Tensor

from hetune.variants.frontend.tracing.alignment import (
    Shape,
    is_rows,
    row_shape,
    rows_named,
    rows_of,
    squeezed,
)
from hetune.variants.frontend.tracing.arithmetic import as_symbol, binary
from hetune.variants.frontend.tracing.column_functions import linear_in_columns
from hetune.variants.frontend.tracing.edges import gathered
from hetune.variants.frontend.tracing.heads import together
from hetune.variants.frontend.tracing.interpreter import Interpreter, handles
from hetune.variants.frontend.tracing.not_traceable import NotTraceable
from hetune.variants.frontend.tracing.symbols import RowValue, Symbol
from hetune.variants.program.nodes import Concat, Reshape, Slice, Space


def _reshaped(at: Interpreter, x: Tensor, shape: Shape) -> RowValue:
    """The same elements in the same order under another shape that has the axis of rows."""
    found, old = rows_of(x), tuple(x.shape)
    before = math.prod(old[: found.axis])
    rows = old[found.axis]
    for axis, extent in enumerate(shape):
        if extent == rows and math.prod(shape[:axis]) == before:
            name = at.recorder.emit(Reshape(found.name, row_shape(shape, axis)), "reshape")
            return RowValue(name, axis)
    raise NotTraceable(f"{list(old)} becomes {list(shape)}: rows of nodes or edges are kept")


@handles("view", "reshape", "flatten", "unflatten", "unsqueeze", "squeeze", "view_as", "reshape_as")
def _view(at: Interpreter, shape: Shape, x: Tensor, *args: Any, **kwargs: Any) -> RowValue:
    return _reshaped(at, x, shape)


@handles("expand", "expand_as", "broadcast_to")
def _expand(at: Interpreter, shape: Shape, x: Tensor, *args: Any, **kwargs: Any) -> RowValue:
    if tuple(x.shape) == shape:
        return rows_of(x)
    found = rows_of(x)
    axis = len(shape) - x.dim() + found.axis
    ones = torch.ones(*shape[:axis], 1, *shape[axis + 1 :])
    return binary(at, shape, "mul", x, ones)


@handles("repeat")
def _repeat(at: Interpreter, shape: Shape, x: Tensor, *sizes: Any) -> RowValue:
    times = sizes[0] if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes
    if len(times) != x.dim() or any(n != 1 and x.shape[i] != 1 for i, n in enumerate(times)):
        raise NotTraceable("rows are repeated: only axes of one element are")
    return rows_of(x.expand(shape))


def _moved(at: Interpreter, shape: Shape, x: Tensor, order: Sequence[int]) -> RowValue:
    """The axis of rows may move; other axes keep their order."""
    found = rows_of(x)
    kept = [axis for axis in order if axis != found.axis and x.shape[axis] != 1]
    if kept != sorted(kept):
        raise NotTraceable("the axes of a row are transposed: keep their order")
    axis = order.index(found.axis)
    name = at.recorder.emit(Reshape(found.name, row_shape(shape, axis)), "reshape")
    return RowValue(name, axis)


@handles("transpose", "swapaxes", "swapdims")
def _transposed(at: Interpreter, shape: Shape, x: Tensor, one: int, other: int) -> RowValue:
    order = list(range(x.dim()))
    order[one], order[other] = order[other], order[one]
    return _moved(at, shape, x, order)


@handles("t")
def _t(at: Interpreter, shape: Shape, x: Tensor) -> RowValue:
    return _moved(at, shape, x, list(range(x.dim()))[::-1])


@handles("permute")
def _permuted(at: Interpreter, shape: Shape, x: Tensor, *dims: Any) -> RowValue:
    order = dims[0] if len(dims) == 1 and not isinstance(dims[0], int) else dims
    return _moved(at, shape, x, [axis % x.dim() for axis in order])


@handles("movedim", "moveaxis")
def _movedim(
    at: Interpreter, shape: Shape, x: Tensor, source: int | Shape, destination: int | Shape
) -> RowValue:
    sources, places = ((n,) if isinstance(n, int) else n for n in (source, destination))
    order = [axis for axis in range(x.dim()) if axis not in {n % x.dim() for n in sources}]
    for place, axis in sorted(
        (p % x.dim(), n % x.dim()) for n, p in zip(sources, places, strict=True)
    ):
        order.insert(place, axis)
    return _moved(at, shape, x, order)


@handles("cat", "concat", "concatenate")
def _cat(at: Interpreter, shape: Shape, tensors: Sequence[Tensor], dim: int = 0) -> RowValue:
    dim = dim + len(shape) if dim < 0 else dim
    like = rows_of(next(tensor for tensor in tensors if is_rows(tensor)))
    axis, kind = like.axis, at.recorder.types[like.name].with_shape()
    if dim == axis:
        parts = [rows_of(tensor).name for tensor in tensors]
        return RowValue(at.parts.edges.joined(parts), axis)
    names = []
    for tensor in tensors:
        own = tuple(tensor.shape)
        if is_rows(tensor) or not isinstance(tensor, Symbol):
            name = rows_named(at.recorder, tensor, kind, axis)
        else:
            raise NotTraceable("a parameter has a row for each node: give it as an input")
        lead = squeezed(extent for i, extent in enumerate(own[:dim]) if i != axis)
        tail = math.prod(extent for i, extent in enumerate(own) if i >= dim and i != axis)
        names.append(at.recorder.emit(Reshape(name, (*lead, tail)), "reshape"))
    found = _side_by_side(at, names) if len(names) > 1 else names[0]
    return RowValue(at.recorder.emit(Reshape(found, row_shape(shape, axis)), "reshape"), axis)


def _side_by_side(at: Interpreter, names: list[str]) -> str:
    heads = None
    if len(at.recorder.types[names[0]].shape) == 1:
        heads = together(at.recorder, names)
    return heads or at.recorder.emit(Concat(tuple(names)), "concat")


@handles("stack")
def _stack(at: Interpreter, shape: Shape, tensors: Sequence[Tensor], dim: int = 0) -> RowValue:
    dim = dim + len(shape) if dim < 0 else dim
    if at.recorder.keeps_apart:
        raise NotTraceable("what edges of each type add up to is compared after the program")
    return rows_of(torch.cat([tensor.unsqueeze(dim) for tensor in tensors], dim))


@handles("chunk", "split", "unbind", "tensor_split", "split_with_sizes")
def _parts(
    at: Interpreter, shapes: list[Shape], x: Tensor, *args: Any, **kwargs: Any
) -> list[RowValue]:
    dim = kwargs.get("dim", args[-1] if len(args) > 1 else 0)
    if len(shapes[0]) < x.dim():  # unbind
        dim = kwargs.get("dim", args[0] if args else 0)
    dim = dim + x.dim() if dim < 0 else dim
    found, start = [], 0
    for shape in shapes:
        extent = shape[dim] if len(shape) == x.dim() else 1
        found.append(_reshaped(at, as_symbol(at, *_sliced(at, x, dim, start, extent)), shape))
        start += extent
    return found


@handles("narrow")
def _narrow(
    at: Interpreter, shape: Shape, x: Tensor, dim: int, start: int, length: int
) -> RowValue:
    dim = dim + len(shape) if dim < 0 else dim
    return _sliced(at, x, dim, start, length)[0]


@handles("slice")
def _slice(
    at: Interpreter,
    shape: Shape,
    x: Tensor,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> RowValue:
    index: list[Any] = [slice(None)] * x.dim()
    index[dim] = slice(start, end, step)
    return _item(at, shape, x, tuple(index))


@handles("select")
def _select(at: Interpreter, shape: Shape, x: Tensor, dim: int, index: int) -> RowValue:
    dim = dim + x.dim() if dim < 0 else dim
    index = index + x.shape[dim] if index < 0 else index
    return _reshaped(at, as_symbol(at, *_sliced(at, x, dim, index, 1)), shape)


def _sliced(
    at: Interpreter, x: Tensor, dim: int, start: int, extent: int
) -> tuple[RowValue, Shape]:
    """Some elements of an axis that is kept."""
    found, shape = rows_of(x), tuple(x.shape)
    after = (*shape[:dim], extent, *shape[dim + 1 :])
    if after == shape:
        return found, shape
    if dim == found.axis:
        raise NotTraceable("some of the rows of nodes or edges are taken: take all")
    lead = squeezed(size for i, size in enumerate(shape[:dim]) if i != found.axis)
    step = math.prod(size for i, size in enumerate(shape) if i > dim and i != found.axis)
    flat = at.recorder.emit(Reshape(found.name, (*lead, shape[dim] * step)), "reshape")
    part = at.recorder.emit(Slice(flat, start * step, (start + extent) * step), "slice")
    name = at.recorder.emit(Reshape(part, row_shape(after, found.axis)), "reshape")
    return RowValue(name, found.axis), after


def _some_rows(at: Interpreter, x: Tensor, dim: int, rows: Tensor | slice) -> Tensor:
    found = rows_of(x)
    if dim != found.axis or at.recorder.types[found.name].space is not Space.NODE:
        raise NotTraceable("a slice depends on the graph: only rows of nodes are taken so")
    name = at.parts.taken(found.name, rows)
    count = at.recorder.count_of(at.recorder.types[name])
    shape = (*x.shape[:dim], count, *x.shape[dim + 1 :])
    return at.symbol(RowValue(name, dim), torch.empty(shape, dtype=x.dtype, device="meta"))


@handles("__getitem__")
def _item(at: Interpreter, shape: Shape, x: Tensor, index: Any) -> RowValue:
    if isinstance(index, Tensor):
        return gathered(at, x, 0, index)
    index = index if isinstance(index, tuple) else (index,)
    given = sum(part is not None and part is not Ellipsis for part in index)
    dim, out = 0, x
    for part in index:
        if part is Ellipsis:
            dim += x.dim() - given
        elif part is None:
            out, dim = out.unsqueeze(dim), dim + 1
        elif isinstance(part, int):
            out = out.select(dim, part)
        elif isinstance(part, slice) and (rows := at.parts.positions(part)) is not None:
            out, dim = _some_rows(at, out, dim, rows), dim + 1
        elif isinstance(part, slice):
            start, stop, step = part.indices(out.shape[dim])
            if step != 1:
                out = linear_in_columns(out, dim, itemgetter((slice(None), part)))
            elif (start, stop) != (0, out.shape[dim]):
                out = out.narrow(dim, start, stop - start)
            dim += 1
        elif isinstance(part, list) and all(type(column) is int for column in part):
            out, dim = linear_in_columns(out, dim, itemgetter((slice(None), part))), dim + 1
        elif isinstance(part, Tensor):
            out = at.symbol(
                gathered(at, out, dim, part),
                torch.empty((*out.shape[:dim], len(part), *out.shape[dim + 1 :]), device="meta"),
            )
            dim += 1
        else:
            raise NotTraceable(f"an index is a {type(part).__name__}")
    return rows_of(out)
