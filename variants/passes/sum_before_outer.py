"""Sums into types of products of both ends: one end's rows are added up first."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hetune.variants.passes.rewrite import rewrite
from hetune.variants.program.builder import Builder
from hetune.variants.program.nodes import (
    ALL_EDGES,
    End,
    Map,
    Op,
    Program,
    Reduce,
    Reshape,
    Space,
    Take,
)


@dataclass(frozen=True, slots=True)
class SumBeforeOuter:
    """Turns ``sum_e x[src] (outer) y_e`` into ``sum_pairs x[src] (outer) (sum_e y_e)``.

    The sum is of an edge type; where it is of all edges, the pairs are nodes. So is the gradient of
    a weight (Hector's `EdgeOuterProduct`), with an outer product for each edge, computed with one
    for each (node, edge type) pair. The sums of a pair are those of the rows' own gradient.

    Attributes:
        end: The end whose rows are taken once for each pair.
    """

    end: End

    def __call__(self, program: Program) -> Program:
        """Applies the pass."""
        return rewrite(program, self._rule)

    def _rule(self, builder: Builder, op: Op, hint: str) -> str | None:
        if not isinstance(op, Reduce) or op.space not in (Space.ETYPE, Space.SHARED):
            return None
        product = builder.op(op.x)
        if not isinstance(product, Map) or product.fn not in ("outer", "mul"):
            return None
        if (op.fn, builder.types[op.x].space) != ("sum", Space.EDGE):
            return None
        for place, name in enumerate(product.args):
            other = product.args[1 - place]
            if builder.types[other].space is not Space.EDGE:
                continue
            if (rows := self._of_pairs(builder, name, op.space)) is None:
                continue
            summed = _summed(builder, other, builder.types[rows].space, self.end)
            args = (rows, summed) if place == 0 else (summed, rows)
            made = builder.emit(replace(product, args=args), f"{op.x}_pair")
            return builder.emit(Reduce(made, op.space), hint)
        return None

    def _of_pairs(self, builder: Builder, name: str, space: Space) -> str | None:
        """The rows of pairs or nodes that edge rows are copied from, by the end."""
        take = builder.op(name)
        if not isinstance(take, Take) or take.end is not self.end:
            return None
        if space is Space.SHARED:
            return take.x if take.group == ALL_EDGES else None
        pairs = Space.SRC_PAIR if self.end is End.SRC else Space.DST_PAIR
        return builder.emit(replace(take, space=pairs), f"{take.x}_{pairs.value}")


def _summed(builder: Builder, name: str, space: Space, end: End) -> str:
    """The sums of edge rows that meet in a pair or node."""
    op = builder.op(name)
    if isinstance(op, Reshape):
        return builder.emit(replace(op, x=_summed(builder, op.x, space, end)), f"{name}_sum")
    by = end if space in (Space.NODE, Space.SOURCE) else End.NONE
    return builder.emit(Reduce(name, space, end=by), f"{name}_sum")
