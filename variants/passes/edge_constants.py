"""Factors of nodes that follow from the graph alone, as one constant of each edge."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hetune.variants.passes.rewrite import to_fixpoint
from hetune.variants.program.builder import Builder
from hetune.variants.program.nodes import (
    Count,
    Linear,
    Map,
    Op,
    Program,
    Reduce,
    Space,
    Take,
    operands,
)


@dataclass(frozen=True, slots=True)
class EdgeConstants:
    """Turns ``d * sum_e take(s * x)`` into ``sum_e (s[src] d[dst]) take(x)``.

    ``s`` and ``d`` depend on the graph alone, so their product is made once for a graph. To read
    it costs a sum over edges a few percent at most; to scale rows before, or sums after, costs a
    walk over the nodes, up to as much as the sum itself on sparse graphs.
    """

    def __call__(self, program: Program) -> Program:
        """Applies the pass."""
        given = {param.name for param in program.params if param.role == "constant"}
        if not given and not any(isinstance(let.op, Count) for let in program.lets):
            return program
        return to_fixpoint(program, lambda builder, op, hint: _rule(builder, given, op, hint))


def _rule(builder: Builder, given: set[str], op: Op, hint: str) -> str | None:
    match op:
        case Take(x, Space.EDGE) if (scaled := _scaled(builder, given, x)) is not None:
            factor, rows = scaled
            factor = builder.emit(replace(op, x=factor), f"{factor}_edge")
            return builder.emit(Map("mul", (factor, builder.emit(replace(op, x=rows), hint))), hint)
        case Linear(x, w) if (scaled := _scaled(builder, given, x)) is not None:
            factor, rows = scaled
            if builder.types[factor].space is Space.NODE and builder.types[w].space is Space.SHARED:
                product = builder.emit(Linear(rows, w), hint)
                return builder.emit(Map("mul", (factor, product)), f"{hint}_scaled")
        case Map("mul") if (scaled := _apart(builder, given, op)) is not None:
            factor, rows = scaled
            if (found := _in_sum(builder, factor, rows, hint)) is not None:
                return found
            further = _scaled(builder, given, rows)
            if further is not None and builder.types[rows].space is Space.EDGE:
                both = builder.emit(Map("mul", (factor, further[0])), f"{factor}_both")
                return builder.emit(Map("mul", (both, further[1])), hint)
    return None


def _in_sum(builder: Builder, factor: str, rows: str, hint: str) -> str | None:
    """A node's number times a sum over edges, or a product of one, with the number on the edges."""
    op = builder.op(rows)
    if isinstance(op, Linear) and isinstance(builder.op(op.x), Reduce):
        found = _in_sum(builder, factor, op.x, hint)
        return None if found is None else builder.emit(replace(op, x=found), hint)
    if not isinstance(op, Reduce) or not _is_sum_of_edges(builder, op):
        return None
    edges = builder.emit(Take(factor, Space.EDGE, op.end), f"{factor}_edge")
    weighted = builder.emit(Map("mul", (edges, op.x)), f"{hint}_weighted")
    return builder.emit(replace(op, x=weighted), hint)


def _is_sum_of_edges(builder: Builder, op: Reduce) -> bool:
    spaces = op.space, builder.types[op.x].space
    return op.fn == "sum" and spaces == (Space.NODE, Space.EDGE)


def _scaled(builder: Builder, given: set[str], name: str) -> tuple[str, str] | None:
    """A value as a number of the graph's times other rows."""
    op = builder.op(name)
    return _apart(builder, given, op) if isinstance(op, Map) and op.fn == "mul" else None


def _apart(builder: Builder, given: set[str], op: Map) -> tuple[str, str] | None:
    for factor, rows in (op.args, op.args[::-1]):
        kind, other = builder.types[factor], builder.types[rows]
        is_number = kind.space is other.space and not kind.shape and kind.group == other.group
        known = (_is_constant(builder, given, name) for name in (factor, rows))
        if is_number and tuple(known) == (True, False):
            return factor, rows
    return None


def _is_constant(builder: Builder, given: set[str], name: str) -> bool:
    """Whether a value follows from the graph alone."""
    op = builder.op(name)
    if not isinstance(op, Map | Take):
        return name in given or isinstance(op, Count)
    return all(_is_constant(builder, given, arg) for arg in operands(op))
