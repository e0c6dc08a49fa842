"""Linear operator reordering (Hector): multiply weights with weights, before any rows."""

from __future__ import annotations

from dataclasses import dataclass

from hetune.variants.passes.rewrite import to_fixpoint
from hetune.variants.program.builder import Builder
from hetune.variants.program.nodes import Dot, Einsum, Linear, Map, Op, Program


@dataclass(frozen=True, slots=True)
class WeightsFirst:
    """Turns ``(x @ W) . a`` into ``x . (W a)``: a product per row becomes a dot product."""

    def __call__(self, program: Program) -> Program:
        """Applies the pass."""
        return to_fixpoint(program, _dot_of_linear)


@dataclass(frozen=True, slots=True)
class FoldScale:
    """Turns ``p * ((x @ W) . y)`` into ``(x @ (p W)) . y`` for weights or constants ``p``."""

    def __call__(self, program: Program) -> Program:
        """Applies the pass."""
        return to_fixpoint(program, _scaled_dot)


def _dot_of_linear(builder: Builder, op: Op, hint: str) -> str | None:
    if not isinstance(op, Dot):
        return None
    for rows, vector in ((op.x, op.y), (op.y, op.x)):
        linear = builder.op(rows)
        if not isinstance(linear, Linear) or not builder.types[vector].space.is_weight:
            continue
        x_rank = len(builder.types[linear.x].shape)
        w_rank = len(builder.types[linear.w].shape)
        v_rank = len(builder.types[vector].shape)
        spec = {
            (1, 2, 1): "kd,d->k",
            (1, 2, 2): "kd,hd->hk",
            (1, 3, 2): "khd,hd->hk",
            (2, 3, 2): "hkd,hd->hk",
        }.get((x_rank, w_rank, v_rank))
        if spec is not None:
            folded = builder.emit(Einsum(spec, (linear.w, vector)), f"{linear.w}_{vector}")
            return builder.emit(Dot(linear.x, folded), hint)
    return None


def _scaled_dot(builder: Builder, op: Op, hint: str) -> str | None:
    if not isinstance(op, Map) or op.fn not in ("mul", "scale"):
        return None
    names = [a for a in op.args if not builder.types[a].space.is_weight]
    weights = [a for a in op.args if builder.types[a].space.is_weight]
    if len(names) != 1 or not isinstance(dot := builder.op(names[0]), Dot):
        return None
    for moved, other in ((dot.x, dot.y), (dot.y, dot.x)):
        linear = builder.op(moved)
        if not isinstance(linear, Linear):
            continue
        if op.fn == "scale":
            weight = builder.emit(Map("scale", (linear.w,), op.const), f"{linear.w}_scaled")
        else:
            ranks = len(builder.types[linear.w].shape), len(builder.types[weights[0]].shape)
            spec = {(2, 0): "kd,->kd", (3, 0): "hkd,->hkd", (3, 1): "hkd,h->hkd"}.get(ranks)
            axes = len(builder.types[linear.x].shape), len(builder.types[names[0]].shape)
            if spec is None or axes[0] != ranks[0] - 1 or ranks[1] not in (0, axes[1]):
                continue
            weight = builder.emit(Einsum(spec, (linear.w, weights[0])), f"{linear.w}_{weights[0]}")
        scaled = builder.emit(Linear(linear.x, weight), moved)
        return builder.emit(Dot(scaled, other), hint)
    return None
