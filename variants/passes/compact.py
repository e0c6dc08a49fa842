"""Compact materialization (Hector): compute per (node, etype) pair what edges share."""

from __future__ import annotations

from dataclasses import dataclass

from hetune.variants.passes.rewrite import rewrite
from hetune.variants.program.builder import Builder
from hetune.variants.program.nodes import (
    ALL_EDGES,
    Dot,
    End,
    Fold,
    Linear,
    Map,
    Op,
    Program,
    Space,
    Take,
    operands,
    with_operands,
)

_SIDE = {Space.SRC_PAIR: End.SRC, Space.DST_PAIR: End.DST}


@dataclass(frozen=True, slots=True)
class Compact:
    """Moves operators from a group's edges to pairs, where all operands come from one end.

    Two edges with the same (source, etype) hold the same ``h[src] @ W[etype]``, so it is computed
    once for the pair. Operators of one end that involve no edge type move to the nodes.

    Attributes:
        group: The edges whose operators are moved.
        linear: Whether `Linear` moves too; False leaves it on the edges.
        scores: Whether dot products of source rows move too; False leaves them on the edges, whose
            sums read these rows as well.
    """

    group: str = ALL_EDGES
    linear: bool = True
    scores: bool = True

    def __call__(self, program: Program) -> Program:
        """Applies the pass."""
        return rewrite(program, self._rule)

    def _rule(self, builder: Builder, op: Op, hint: str) -> str | None:
        if not isinstance(op, Linear | Map | Dot | Fold) or (
            isinstance(op, Linear) and not self.linear
        ):
            return None
        if isinstance(op, Map) and op.fn == "outer":
            return None  # the kernel that sums it up makes it
        if self._is_weighted(builder, op):
            return None
        edges = [a for a in operands(op) if builder.types[a].space is Space.EDGE]
        if not edges or any(builder.types[a].group != self.group for a in edges):
            return None
        sides = {_side(builder, a) for a in edges}
        if len(sides) != 1 or (side := sides.pop()) is End.NONE:
            return None
        if isinstance(op, Dot) and side is End.SRC and not self.scores:
            return None
        if _needs_etype(builder, op):
            space = Space.SRC_PAIR if side is End.SRC else Space.DST_PAIR
            lifted, end = {a: self._lift(builder, a, space) for a in edges}, End.NONE
        else:
            lifted, end = {a: _node_of(builder, a) for a in edges}, side
        moved = with_operands(op, tuple(lifted.get(a, a) for a in operands(op)))
        rows = builder.emit(moved, hint)
        return builder.emit(Take(rows, Space.EDGE, end, self.group), f"{rows}_edge")

    def _is_weighted(self, builder: Builder, op: Op) -> bool:
        """Whether rows are multiplied by a number of theirs, which sums do in no time."""
        if not isinstance(op, Map) or op.fn != "mul":
            return False
        number, rows = sorted(op.args, key=lambda name: len(builder.types[name].shape))
        is_copy = all(isinstance(builder.op(name), Take) for name in op.args)
        return is_copy and not builder.types[number].shape and builder.types[rows].shape != ()

    def _lift(self, builder: Builder, name: str, space: Space) -> str:
        take = builder.op(name)
        assert isinstance(take, Take)
        if builder.types[take.x].space in _SIDE:
            return take.x
        return builder.emit(Take(take.x, space, take.end, self.group), f"{take.x}_{space.value}")


def _side(builder: Builder, name: str) -> End:
    """The end that an edge value is a copy from, or ``NONE``."""
    match builder.op(name):
        case Take(x=x, end=end):
            space = builder.types[x].space
            return end if space is Space.NODE else _SIDE.get(space, End.NONE)
    return End.NONE


def _needs_etype(builder: Builder, op: Op) -> bool:
    def typed(name: str) -> bool:
        take = builder.op(name)
        from_pair = isinstance(take, Take) and builder.types[take.x].space in _SIDE
        return builder.types[name].space is Space.ETYPE or from_pair

    return any(typed(name) for name in operands(op))


def _node_of(builder: Builder, name: str) -> str:
    take = builder.op(name)
    assert isinstance(take, Take)
    return take.x
