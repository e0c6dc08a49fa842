"""Hybrid plans: each edge type is transformed on its smaller side. hetune's own."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hetune.variants.passes.product import messages_of
from hetune.variants.passes.rewrite import rewrite
from hetune.variants.passes.transform_side import score_of
from hetune.variants.program.builder import Builder
from hetune.variants.program.nodes import (
    ALL_EDGES,
    Count,
    Dot,
    Fold,
    Group,
    Linear,
    Map,
    Merge,
    Op,
    Program,
    Reduce,
    Reshape,
    Rule,
    Space,
    Take,
    is_sum,
    operands,
    with_operands,
)

SIDES = (Group("s", Rule.FEWER_SRC), Group("d", Rule.FEWER_DST))
"""Edge types with fewer (src, etype) than (dst, etype) pairs, and all others."""
SRC_SIDE, DST_SIDE = (group.name for group in SIDES)


@dataclass(frozen=True, slots=True)
class SplitMessages:
    """Splits the sum of typed messages into one sum for each group of edge types."""

    def __call__(self, program: Program) -> Program:
        """Applies the pass."""
        return rewrite(program, _split_sum)


@dataclass(frozen=True, slots=True)
class SplitScores:
    """Splits bilinear edge scores by group; the parts are merged into one score per edge."""

    def __call__(self, program: Program) -> Program:
        """Applies the pass."""
        return rewrite(program, _split_score)


def _split_sum(builder: Builder, op: Op, hint: str) -> str | None:
    if not isinstance(op, Reduce) or not is_sum(op, Space.NODE) or not _all_edges(builder, op.x):
        return None
    if messages_of(builder, op.x) is None:
        return None
    _declare_sides(builder)
    source, destination = (
        builder.emit(with_operands(op, (_restrict(builder, op.x, group),)), f"{hint}_{group}")
        for group in (SRC_SIDE, DST_SIDE)
    )
    return builder.emit(Map("add", (destination, source)), hint)


def _split_score(builder: Builder, op: Op, hint: str) -> str | None:
    if not isinstance(op, Dot) or score_of(builder, op) is None or not _all_edges(builder, op.x):
        return None
    _declare_sides(builder)
    parts = tuple(
        builder.emit(
            with_operands(op, tuple(_restrict(builder, a, group) for a in operands(op))),
            f"{hint}_{group}",
        )
        for group in (SRC_SIDE, DST_SIDE)
    )
    return builder.emit(Merge(parts), hint)


def _declare_sides(builder: Builder) -> None:
    for group in SIDES:
        builder.declare(group)


def _all_edges(builder: Builder, name: str) -> bool:
    kind = builder.types[name]
    return kind.space is Space.EDGE and kind.group == ALL_EDGES


def _restrict(builder: Builder, name: str, group: str) -> str:
    """An edge or pair value, for a group's edge types only."""
    kind = builder.types[name]
    if not kind.space.is_edgewise:
        return name
    hint = f"{name}_{group}"
    match builder.op(name):
        case Take(x=x, end=end):
            rows = _restrict(builder, x, group)
            return builder.emit(Take(rows, kind.space, end, group), hint)
        case Count() as op:
            return builder.emit(replace(op, group=group), hint)
        case Reshape(x, shape) if kind.space is not Space.EDGE:
            return builder.emit(Reshape(_restrict(builder, x, group), shape), hint)
        case Linear() | Map() | Dot() | Fold() | Reduce() as op:
            parts = tuple(_restrict(builder, a, group) for a in operands(op))
            return builder.emit(with_operands(op, parts), hint)
        case _:
            return builder.emit(Take(name, Space.EDGE, group=group), hint)
