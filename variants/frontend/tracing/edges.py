"""From nodes to edges and back: indexing, scattering and reducing by an end of the edges."""

from __future__ import annotations

import torch
from torch import Tensor

from hetune.variants.frontend.tracing.alignment import Shape, is_rows, rows_of
from hetune.variants.frontend.tracing.arithmetic import as_symbol, binary
from hetune.variants.frontend.tracing.interpreter import Interpreter, handles
from hetune.variants.frontend.tracing.new_tensors import LIKE
from hetune.variants.frontend.tracing.not_traceable import NotTraceable
from hetune.variants.frontend.tracing.symbols import RowValue
from hetune.variants.program.nodes import End, Reduce, Space, Take

_FUNCTIONS = {
    "sum": "sum",
    "amax": "max",
    "amin": "min",
    "prod": "prod",
}


def gathered(at: Interpreter, x: Tensor, dim: int, index: Tensor) -> RowValue:
    """Rows of nodes at an end of each edge; or some rows of edges."""
    found = rows_of(x)
    if dim % x.dim() != found.axis:
        raise NotTraceable("elements of rows are indexed by a tensor: slice them")
    space = at.recorder.types[found.name].space
    if space is Space.EDGE and at.tape.has_positions(index):
        return RowValue(at.parts.edges.taken(found.name, index), found.axis)
    if space not in (Space.NODE, Space.SRC_PAIR):
        raise NotTraceable("rows of edges are indexed: only rows of nodes are, by an end of edges")
    if is_rows(index) or index.dtype not in (torch.int64, torch.int32) or index.dim() != 1:
        raise NotTraceable("rows are indexed by something else than an end of the edges")
    if space is Space.NODE and at.tape.has_positions(index):
        return RowValue(at.parts.taken(found.name, index), found.axis)
    if (read := at.parts.edges.read_back(found.name, index)) is not None:
        return RowValue(read, found.axis)
    end, group = at.recorder.end_of(index)
    if space is Space.NODE:
        at.recorder.check_nodes(group, end, at.recorder.types[found.name].group)
    name = found.name
    if space is Space.SRC_PAIR:
        at.recorder.source_ends.add(end)
        name, end = at.recorder.with_edges_of(group, name), End.NONE
    return RowValue(at.recorder.emit(Take(name, Space.EDGE, end, group), "take"), found.axis)


@handles("index_select")
def _index_select(at: Interpreter, shape: Shape, x: Tensor, dim: int, index: Tensor) -> RowValue:
    return gathered(at, x, dim, index)


@handles("scatter_add", "scatter_add_")
def _scatter_add(
    at: Interpreter, shape: Shape, into: Tensor, dim: int, index: Tensor, src: Tensor
) -> RowValue:
    return _reduced(at, into, dim, _spread_index(index, dim), src, "sum")


@handles("scatter_reduce", "scatter_reduce_")
def _scatter_reduce(
    at: Interpreter,
    shape: Shape,
    into: Tensor,
    dim: int,
    index: Tensor,
    src: Tensor,
    reduce: str,
    *,
    include_self: bool = True,
) -> RowValue:
    return _reduced(at, into, dim, _spread_index(index, dim), src, reduce, include_self)


@handles("index_add", "index_add_")
def _index_add(
    at: Interpreter, shape: Shape, into: Tensor, dim: int, index: Tensor, source: Tensor
) -> RowValue:
    return _reduced(at, into, dim, index, source, "sum")


@handles("index_reduce", "index_reduce_")
def _index_reduce(
    at: Interpreter,
    shape: Shape,
    into: Tensor,
    dim: int,
    index: Tensor,
    source: Tensor,
    reduce: str,
    *,
    include_self: bool = True,
) -> RowValue:
    return _reduced(at, into, dim, index, source, reduce, include_self)


def _spread_index(index: Tensor, dim: int) -> Tensor:
    """The index of each row, where one was expanded to every element."""
    if is_rows(index):
        raise NotTraceable("the edges depend on inputs")
    for axis in range(index.dim()):
        if axis != dim % index.dim() and index.stride(axis) != 0 and index.shape[axis] != 1:
            raise NotTraceable("elements of one row are scattered to different rows")
    dim = dim % index.dim()
    return index[tuple(slice(None) if axis == dim else 0 for axis in range(index.dim()))]


def _reduced(
    at: Interpreter,
    into: Tensor,
    dim: int,
    index: Tensor,
    src: Tensor,
    reduce: str,
    include_self: bool = True,
) -> RowValue:
    fn = _FUNCTIONS.get(reduce)
    if fn is None:
        raise NotTraceable(f"scatter with reduce={reduce!r}: sum, amax, amin and prod compile")
    if fn == "sum" and is_rows(into):
        found = _reduced(at, LIKE["zeros_like"](at.counted_shape, into), dim, index, src, reduce)
        shape = tuple(into.shape)
        return binary(at, shape, "add", into, as_symbol(at, found, shape))
    base = 1 if fn == "prod" else 0
    is_neutral = not is_rows(into) and (at.tape.is_filled(into, base) or bool((into == base).all()))
    if not is_neutral or (fn in ("max", "min") and include_self):
        raise NotTraceable("rows are scattered into a tensor that is not new: add it afterwards")
    dim = dim % into.dim()
    if not dim and is_rows(src) and at.recorder.types[rows_of(src).name].group in at.recorder.parts:
        rows = _edge_rows(at, src, (len(index), *into.shape[1:]))
        return RowValue(at.parts.edges.reduced(rows.name, into, index, fn), rows.axis)
    counts = [*at.recorder.node_counts.values()] or [at.recorder.counts[Space.NODE]]
    if all(into.shape[dim] != nodes for nodes in counts):
        known = " or ".join(map(str, counts))
        raise NotTraceable(f"edges are scattered to {into.shape[dim]} rows, not to {known} nodes")
    end, group = at.recorder.end_of(index)
    at.tape.check_extent(into, dim, at.recorder.scattered_to(group, end, into, dim))
    shape = (*into.shape[:dim], len(index), *into.shape[dim + 1 :])
    found = _edge_rows(at, src, shape)
    if found.axis != dim:
        raise NotTraceable("elements of rows are scattered: scatter rows")
    if at.recorder.types[found.name].space is not Space.EDGE:
        raise NotTraceable("rows of nodes are scattered: index them by an end of the edges first")
    if at.recorder.types[found.name].group != group:
        raise NotTraceable("rows of edges are scattered by an end of others")
    return RowValue(at.recorder.emit(Reduce(found.name, Space.NODE, fn, end), fn), found.axis)


def _edge_rows(at: Interpreter, src: Tensor, shape: Shape) -> RowValue:
    if tuple(src.shape) == shape:
        return rows_of(src)
    return rows_of(src.expand(shape))
