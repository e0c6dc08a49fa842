"""Products of rows with weights, and functions over the axes of each row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from hetune.variants.frontend.tracing.alignment import Shape, is_rows, row_shape, rows_of, squeezed
from hetune.variants.frontend.tracing.expressions import Expression, called, fixed
from hetune.variants.frontend.tracing.interpreter import Interpreter, handles
from hetune.variants.frontend.tracing.not_traceable import NotTraceable
from hetune.variants.frontend.tracing.symbols import RowValue, Symbol
from hetune.variants.program.nodes import Dot, Fold, Linear, Map, Reshape, Take

Dims = int | Sequence[int] | None


def _weight(x: Tensor) -> Expression:
    if isinstance(x, Symbol):
        assert isinstance(x.meaning, Expression)
        return x.meaning
    return fixed(x)


@handles("linear")
def _linear(
    at: Interpreter, shape: Shape, input: Tensor, weight: Tensor, bias: Tensor | None = None
) -> RowValue:
    product = torch.matmul(input, weight.t())
    return rows_of(product if bias is None else product + bias)


@handles("addmm", "baddbmm")
def _addmm(
    at: Interpreter,
    shape: Shape,
    input: Tensor,
    x: Tensor,
    w: Tensor,
    *,
    beta: float = 1,
    alpha: float = 1,
) -> RowValue:
    product = torch.matmul(x, w)
    return rows_of(input * beta + product * alpha)


@handles("matmul", "__matmul__", "mm", "bmm")
def _matmul(at: Interpreter, shape: Shape, x: Tensor, w: Tensor) -> RowValue:
    if not is_rows(x) or (is_rows(w) and w.dim() < 3):
        raise NotTraceable("a product over nodes or edges: multiply rows by parameters")
    if is_rows(w):
        if (typed := _by_type(at, shape, x, w)) is not None:
            return typed
        return rows_of((x.unsqueeze(-1) * w.unsqueeze(-3)).sum(-2))
    found = rows_of(x)
    if found.axis == x.dim() - 1:
        raise NotTraceable("a product over nodes or edges: multiply rows by parameters")
    weight, inner = _weight(w), x.shape[-1]
    if w.dim() == 1:
        return rows_of((x * w).sum(-1))
    outer = w.shape[-1]
    if w.dim() > 2 and (found.axis != x.dim() - 2 or w.dim() != x.dim()):
        raise NotTraceable(f"a product of {list(x.shape)} and {list(w.shape)}")
    own = row_shape(tuple(x.shape[:-1]), found.axis)
    heads = own if w.dim() == 2 else squeezed(shape[:-2])
    if heads != own:
        x = x.expand(*shape[:-2], *x.shape[-2:])
        found = rows_of(x)
    count = math.prod(heads)
    if heads:
        lead = x.shape[: found.axis] if w.dim() > 2 else heads
        weight = called(torch.Tensor.expand, (weight, (*lead, inner, outer)), {})
    flat: tuple[int, ...] = (count, inner, outer) if heads else (inner, outer)
    given = at.recorder.emit(Reshape(found.name, flat[:-1]), "reshape")
    flat = flat[:-1] if outer == 1 else flat
    weight = called(torch.Tensor.reshape, (weight, flat), {})
    name = at.recorder.weight(weight, flat)
    op = Dot(given, name) if outer == 1 else Linear(given, name)
    product = at.recorder.emit(op, f"by_{name}")
    result = at.recorder.emit(Reshape(product, row_shape(shape, found.axis)), "reshape")
    return RowValue(result, found.axis)


@handles("einsum")
def _einsum(at: Interpreter, shape: Shape, spec: str, *operands: Any) -> RowValue:
    """A product of rows with a weight, by head if they share axes that stay."""
    given = operands[0] if isinstance(operands[0], list | tuple) else operands
    left, arrow, out = spec.replace(" ", "").partition("->")
    names = left.split(",")
    if not arrow or len(given) != 2 or "." in spec or not is_rows(given[0]) or is_rows(given[1]):
        raise NotTraceable(f"einsum {spec!r}: products of rows with a weight compile")
    x, w = given
    row = names[0][rows_of(x).axis]
    heads = [n for n in names[0] if n in names[1] and n in out]
    inner = [n for n in names[0] if n in names[1] and n not in out]
    outer = [n for n in names[1] if n not in names[0]]
    if row in names[1] or {row, *heads, *inner} != {*names[0]} or {row, *heads, *outer} != {*out}:
        raise NotTraceable(f"einsum {spec!r}: products of rows with a weight compile")
    w = w.permute([names[1].index(n) for n in (*heads, *inner, *outer)])
    sizes = [tuple(w.shape[: len(heads)]), tuple(w.shape[len(heads) + len(inner) :])]
    count, width = math.prod(sizes[0]), math.prod(sizes[1])
    w = w.reshape(count, -1, width)
    x = x.permute([names[0].index(n) for n in (*heads, row, *inner)])
    rows = x.shape[len(heads)]
    product = torch.matmul(x.reshape(count, rows, -1), w)
    product = product.reshape(*sizes[0], rows, *sizes[1])
    order = [*heads, row, *outer]
    return rows_of(product.permute([order.index(n) for n in out]))


def _by_type(at: Interpreter, shape: Shape, x: Tensor, w: Tensor) -> RowValue | None:
    """A product of one row with the matrix that its type chooses, if it is one."""
    recorder, found, chosen = at.recorder, rows_of(x), rows_of(w)
    take = recorder.op_of(chosen.name)
    given = recorder.types[found.name].shape
    if not isinstance(take, Take) or not recorder.types[take.x].space.is_weight:
        return None
    if chosen.axis or recorder.types[take.x].shape[: len(given)] != given or w.dim() != 3:
        return None
    if len(given) != 1 or x.shape[-2:] != (1, *given):
        return None
    product = recorder.emit(Linear(found.name, take.x), f"by_{take.x}")
    name = recorder.emit(Reshape(product, row_shape(shape, found.axis)), "reshape")
    return RowValue(name, found.axis)


def folded(at: Interpreter, shape: Shape, x: Tensor, dims: Dims, fn: str, keep: bool) -> RowValue:
    """A function over axes of each row; `shape` is the result's."""
    found = rows_of(x)
    if dims is None:
        raise NotTraceable(f"the {fn} of all elements: reduce rows by an end of the edges")
    axes = sorted({axis % x.dim() for axis in ([dims] if isinstance(dims, int) else dims)})
    if found.axis in axes:
        raise NotTraceable(f"the {fn} of all nodes or edges: reduce rows by an end of the edges")
    name = found.name
    for axis in reversed(axes):
        if x.shape[axis] != 1:
            before = squeezed(d for i, d in enumerate(x.shape[:axis]) if i != found.axis)
            name = _one_fold(at, name, len(before), fn)
    axis = found.axis if keep else found.axis - sum(a < found.axis for a in axes)
    return RowValue(at.recorder.emit(Reshape(name, row_shape(shape, axis)), "reshape"), axis)


def _one_fold(at: Interpreter, name: str, axis: int, fn: str) -> str:
    recorder = at.recorder
    op = recorder.op_of(name)
    if fn == "sum" and axis == len(recorder.types[name].shape) - 1 and isinstance(op, Map):
        if op.fn == "square":
            return recorder.emit(Dot(op.args[0], op.args[0]), "dot")
        shapes = [recorder.types[arg].shape for arg in op.args]
        if op.fn == "mul" and shapes[0] == shapes[1]:
            return recorder.emit(Dot(*op.args), "dot")
    return recorder.emit(Fold(name, axis, fn), fn)


def _fold(fn: str) -> None:
    def handler(
        at: Interpreter,
        shape: Shape,
        x: Tensor,
        dim: Dims = None,
        keepdim: bool = False,
        **kwargs: Any,
    ) -> RowValue:
        return folded(at, shape, x, dim, fn, keepdim)

    handles(*{"max": ("amax",), "min": ("amin",)}.get(fn, (fn,)))(handler)


for _fn in ("sum", "mean", "max", "min"):
    _fold(_fn)


@handles("max", "min")
def _between(at: Interpreter, shape: Shape, x: Tensor, other: Tensor) -> RowValue:
    raise NotTraceable("the largest of all elements, or of two: take amax(), or maximum()")


@handles("softmax")
def _softmax(
    at: Interpreter, shape: Shape, input: Tensor, dim: int, *args: Any, **kwargs: Any
) -> RowValue:
    weight = (input - input.amax(dim, keepdim=True)).exp()
    return rows_of(weight / weight.sum(dim, keepdim=True))


@handles("log_softmax")
def _log_softmax(
    at: Interpreter, shape: Shape, input: Tensor, dim: int, *args: Any, **kwargs: Any
) -> RowValue:
    shifted = input - input.amax(dim, keepdim=True)
    return rows_of(shifted - shifted.exp().sum(dim, keepdim=True).log())


@handles("norm", "vector_norm", "linalg_norm", "linalg_vector_norm")
def _norm(
    at: Interpreter,
    shape: Shape,
    x: Tensor,
    p: float | str | None = 2,
    dim: Dims = None,
    keepdim: bool = False,
    *args: Any,
    **kwargs: Any,
) -> RowValue:
    order = kwargs.get("ord", p)
    order = 2 if order in (None, "fro") else order
    axes: Any = dim
    if order == 2:
        return rows_of((x * x).sum(axes, keepdim).sqrt())
    if order == 1:
        return rows_of(x.abs().sum(axes, keepdim))
    if order == math.inf:
        return rows_of(x.abs().amax(axes, keepdim))
    raise NotTraceable(f"the norm of order {order}: 1, 2 and inf compile")


@handles("normalize")
def _normalize(
    at: Interpreter,
    shape: Shape,
    input: Tensor,
    p: float = 2.0,
    dim: int = 1,
    eps: float = 1e-12,
    out: None = None,
) -> RowValue:
    return rows_of(input / input.norm(p, dim, keepdim=True).clamp(min=eps))


@handles("cosine_similarity")
def _cosine_similarity(
    at: Interpreter, shape: Shape, x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8
) -> RowValue:
    lengths = [x.norm(dim=dim).clamp(min=eps) for x in (x1, x2)]
    return rows_of((x1 * x2).sum(dim) / (lengths[0] * lengths[1]))


@handles("layer_norm")
def _layer_norm(
    at: Interpreter,
    shape: Shape,
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> RowValue:
    axes = tuple(range(-len(normalized_shape), 0))
    around = input - input.mean(axes, keepdim=True)
    out = around * ((around * around).mean(axes, keepdim=True) + eps).rsqrt()
    out = out if weight is None else out * weight
    return rows_of(out if bias is None else out + bias)


@handles("batch_norm")
def _batch_norm(
    at: Interpreter,
    shape: Shape,
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> RowValue:
    if training or running_mean is None or running_var is None:
        raise NotTraceable("batch norm of the input's own statistics: call eval() for inference")
    factor = (running_var + eps).rsqrt()
    factor = factor if weight is None else factor * weight
    term = -running_mean * factor
    term = term if bias is None else term + bias
    return rows_of(input * factor + term)


@handles("gru_cell")
def _gru_cell(
    at: Interpreter,
    shape: Shape,
    input: Tensor,
    hx: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> RowValue:
    def gates(x: Tensor, w: Tensor, b: Tensor | None) -> list[Tensor]:
        terms: Sequence[Tensor | None] = [None] * 3 if b is None else b.chunk(3)
        return [functional.linear(x, *gate) for gate in zip(w.chunk(3), terms, strict=True)]

    reset_x, update_x, new_x = gates(input, w_ih, b_ih)
    reset_h, update_h, new_h = gates(hx, w_hh, b_hh)
    update = torch.sigmoid(update_x + update_h)
    new = torch.tanh(new_x + torch.sigmoid(reset_x + reset_h) * new_h)
    return rows_of(new + update * (hx - new))


@handles("prelu")
def _prelu(at: Interpreter, shape: Shape, input: Tensor, weight: Tensor) -> RowValue:
    return rows_of(functional.relu(input) - weight * functional.relu(-input))
