"""Folding chained linear maps: ``(x @ W1 + b1) @ W2 = x @ (W1 W2) + b1 W2``."""

from __future__ import annotations

from dataclasses import dataclass

from hetune.variants.passes.rewrite import rewrite
from hetune.variants.passes.transform_side import score_of
from hetune.variants.program.builder import Builder
from hetune.variants.program.nodes import (
    Dot,
    Einsum,
    Linear,
    Map,
    Op,
    Program,
    Space,
    Take,
)

_SPECS = {(2, 2): ("kd,de->ke", "d,de->e"), (3, 3): ("khd,hde->khe", "hd,hde->he")}
"""How two weights multiply, and a bias with the second, by the ranks of both weights."""


@dataclass(frozen=True, slots=True)
class FoldProducts:
    """Folds a node type's linear map into the edge types' that follows it (HGT: ``W_V W_msg``).

    Saves the product per node, at the price of a full matrix where the second map was one block
    per head. Needs canonical edge types: an edge type's source type picks ``W1``.

    Attributes:
        weight: The etype weight whose products are folded; "" for all.
    """

    weight: str = ""

    def __call__(self, program: Program) -> Program:
        """Applies the pass."""
        return rewrite(program, self._rule)

    def _rule(self, builder: Builder, op: Op, hint: str) -> str | None:
        if not isinstance(op, Linear) or self.weight not in ("", op.w):
            return None
        folded = _fold(builder, op)
        return None if folded is None else _apply(builder, folded, hint)


@dataclass(frozen=True, slots=True)
class FoldScores:
    """Folds the node types' linear maps into the bilinear score between them.

    ``((u @ W1 + b1) @ A) . (v @ W2 + b2)``, as HGT's scores are, is affine in ``u`` with weights
    of the edge type, and so is what ``v`` meets: ``(u @ (W1 A W2^T) + b1 A W2^T) . v`` and a number
    that depends on ``u`` and the edge type, ``u . (W1 A b2) + b1 A b2``. It saves the products of
    both nodes. Of scores without heads: each head would need a whole row of its own.
    """

    def __call__(self, program: Program) -> Program:
        """Applies the pass."""
        return rewrite(program, self._rule)

    def _rule(self, builder: Builder, op: Op, hint: str) -> str | None:
        if not isinstance(op, Dot) or (score := score_of(builder, op)) is None:
            return None
        linear, other, _ = score
        near, far = _fold(builder, linear), _affine_at_end(builder, other)
        if near is None or far is None or len(builder.types[linear.w].shape) != 2:
            return None
        return _score(builder, near, far, hint)


@dataclass(frozen=True, slots=True)
class _Affine:
    """``rows @ w + b``: edge or pair rows taken from nodes, weights of their edge types."""

    rows: str
    w: str
    b: str | None


def _fold(builder: Builder, linear: Linear) -> _Affine | None:
    """A product of rows taken from what a node type's linear map made, as one of its operand."""
    inner = _affine_at_end(builder, linear.x)
    if inner is None:
        return None
    ranks = len(builder.types[inner.w].shape), len(builder.types[linear.w].shape)
    if ranks not in _SPECS:
        return None
    weights_spec, bias_spec = _SPECS[ranks]
    b = None
    if inner.b is not None:
        b = builder.emit(Einsum(bias_spec, (inner.b, linear.w)), f"{inner.b}_{linear.w}")
    w = builder.emit(Einsum(weights_spec, (inner.w, linear.w)), f"{inner.w}_{linear.w}")
    return _Affine(inner.rows, w, b)


def _score(builder: Builder, near: _Affine, far: _Affine, hint: str) -> str:
    def weights(spec: str, *args: str) -> str:
        return builder.emit(Einsum(spec, args), "_".join(args))

    shift = None if near.b is None else weights("e,fe->f", near.b, far.w)
    both = _Affine(near.rows, weights("ke,fe->kf", near.w, far.w), shift)
    score = builder.emit(Dot(_apply(builder, both, f"{hint}_near"), far.rows), hint)
    if far.b is None:
        return score
    number = builder.emit(Dot(near.rows, weights("ke,e->k", near.w, far.b)), f"{hint}_bias")
    if near.b is not None:
        constant = weights("e,e->", near.b, far.b)
        number = builder.emit(Map("add", (number, constant)), f"{hint}_bias")
    return builder.emit(Map("add", (score, number)), hint)


def _apply(builder: Builder, affine: _Affine, hint: str) -> str:
    product = builder.emit(Linear(affine.rows, affine.w), hint)
    if affine.b is None:
        return product
    return builder.emit(Map("add", (product, affine.b)), f"{hint}_biased")


def _affine_at_end(builder: Builder, name: str) -> _Affine | None:
    """Rows that are taken from what a node type's linear map made, as that map of taken rows."""
    take = builder.op(name)
    if not isinstance(take, Take) or builder.types[take.x].space is not Space.NODE:
        return None
    linear, bias = _affine(builder, take.x)
    if linear is None or builder.types[linear.x].shape != (builder.types[linear.w].shape[0],):
        return None

    def per_etype(weight: str) -> str:
        return builder.emit(Take(weight, Space.ETYPE, take.end), f"{weight}_{take.end.value}")

    rows = builder.emit(Take(linear.x, take.space, take.end, take.group), f"{linear.x}_edge")
    return _Affine(rows, per_etype(linear.w), None if bias is None else per_etype(bias))


def _affine(builder: Builder, name: str) -> tuple[Linear | None, str | None]:
    """The ntype linear map, and its bias, that a node value is made by."""
    match builder.op(name):
        case Linear(w=w) as linear if builder.types[w].space is Space.NTYPE:
            return linear, None
        case Map(fn="add", args=(rows, bias)) if _is_bias(builder, rows, bias):
            inner, nothing = _affine(builder, rows)
            return (inner, bias) if nothing is None else (None, None)
    return None, None


def _is_bias(builder: Builder, rows: str, bias: str) -> bool:
    """Whether a row of the node type is added: one of fewer axes would have to be spread out."""
    kind = builder.types[bias]
    return kind.space is Space.NTYPE and kind.shape == builder.types[rows].shape
