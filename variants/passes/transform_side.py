"""Which side of a bilinear score is transformed: ``(k A) . q = k . (q A^T)``."""

from __future__ import annotations

from dataclasses import dataclass

from hetune.variants.passes.rewrite import rewrite
from hetune.variants.program.builder import Builder
from hetune.variants.program.nodes import (
    ALL_EDGES,
    Dot,
    Einsum,
    End,
    Linear,
    Op,
    Program,
    Space,
    Take,
)


@dataclass(frozen=True, slots=True)
class TransformSide:
    """Moves the linear map of an edge score to its other operand.

    Only scores ``Dot(Linear(take(a), A), take(b))`` on the edges of ``group`` whose linear map is
    not at ``end`` yet are changed (HGT: the key or the query meets ``W_att``).
    """

    end: End
    group: str = ALL_EDGES

    def __call__(self, program: Program) -> Program:
        """Applies the pass."""
        return rewrite(program, self._rule)

    def _rule(self, builder: Builder, op: Op, hint: str) -> str | None:
        if not isinstance(op, Dot) or (score := score_of(builder, op)) is None:
            return None
        linear, other, linear_end = score
        if linear_end is self.end or builder.types[linear.x].group != self.group:
            return None
        spec = {2: "kd->dk", 3: "hkd->hdk"}[len(builder.types[linear.w].shape)]
        transposed = builder.emit(Einsum(spec, (linear.w,)), f"{linear.w}_t")
        moved = builder.emit(Linear(other, transposed), f"{other}_{linear.w}")
        return builder.emit(Dot(linear.x, moved), hint)


def score_of(builder: Builder, op: Dot) -> tuple[Linear, str, End] | None:
    """The linear map of a bilinear edge score, the other operand, and the map's end.

    The map makes a row of each row, or of each head's: one that makes heads cannot be moved.
    """
    for transformed, other in ((op.x, op.y), (op.y, op.x)):
        linear, far = builder.op(transformed), builder.op(other)
        if not isinstance(linear, Linear) or builder.types[linear.w].space is not Space.ETYPE:
            continue
        near = builder.op(linear.x)
        if (
            isinstance(near, Take)
            and isinstance(far, Take)
            and near.space is far.space is Space.EDGE
            and builder.types[linear.x].shape == builder.types[other].shape
            and len(builder.types[linear.w].shape) == len(builder.types[linear.x].shape) + 1
            and {near.end, far.end} == {End.SRC, End.DST}
        ):
            return linear, other, near.end
    return None
