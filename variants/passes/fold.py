"""Folding chained linear maps: ``(x @ W1 + b1) @ W2 = x @ (W1 W2) + b1 W2``."""

from __future__ import annotations

from dataclasses import dataclass

from hetune.variants.passes.rewrite import Builder, rewrite
from hetune.variants.program.nodes import Einsum, Linear, Map, Op, Program, Space, Take

_SPECS = {(2, 2): ("kd,de->ke", "d,de->e"), (3, 3): ("khd,hde->khe", "hd,hde->he")}
"""How two weights multiply, and a bias with the second, by the ranks of both weights."""


@dataclass(frozen=True, slots=True)
class Fold:
    """Folds a node type's linear map into the edge types' that follows it (HGT: ``W_K W_att``).

    Saves the product per node, at the price of a full matrix where the second map was one block
    per head. Needs canonical edge types: an edge type's source type picks ``W1``.

    Attributes:
        weight: The etype weight whose products are folded.
    """

    weight: str

    def __call__(self, program: Program) -> Program:
        """Applies the pass."""
        return rewrite(program, self._rule)

    def _rule(self, builder: Builder, op: Op, hint: str) -> str | None:
        if not isinstance(op, Linear) or op.w != self.weight:
            return None
        take = builder.op(op.x)
        if not isinstance(take, Take) or builder.types[take.x].space is not Space.NODE:
            return None
        linear, bias = _affine(builder, take.x)
        if linear is None or builder.types[linear.x].shape != (builder.types[linear.w].shape[0],):
            return None
        ranks = len(builder.types[linear.w].shape), len(builder.types[op.w].shape)
        if ranks not in _SPECS:
            return None
        weights_spec, bias_spec = _SPECS[ranks]

        def per_etype(name: str) -> str:
            return builder.emit(Take(name, Space.ETYPE, take.end), f"{name}_{take.end.value}")

        folded = builder.emit(
            Einsum(weights_spec, (per_etype(linear.w), op.w)), f"{linear.w}_{op.w}"
        )
        rows = builder.emit(Take(linear.x, take.space, take.end, take.group), f"{linear.x}_edge")
        product = builder.emit(Linear(rows, folded), hint)
        if bias is None:
            return product
        shift = builder.emit(Einsum(bias_spec, (per_etype(bias), op.w)), f"{bias}_{op.w}")
        return builder.emit(Map("add", (product, shift)), f"{hint}_biased")


def _affine(builder: Builder, name: str) -> tuple[Linear | None, str | None]:
    """The ntype linear map, and its bias, that a node value is made by."""
    match builder.op(name):
        case Linear(w=w) as linear if builder.types[w].space is Space.NTYPE:
            return linear, None
        case Map(fn="add", args=(rows, bias)) if builder.types[bias].space is Space.NTYPE:
            inner, nothing = _affine(builder, rows)
            return (inner, bias) if nothing is None else (None, None)
    return None, None
