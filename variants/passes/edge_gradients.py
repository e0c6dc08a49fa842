"""Gradients of rows of nodes and of types as rows of edges, to be added up there.

Where edges come once, as batches of triples do, no order of them is worth making for sums of rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from hetune.variants.passes.gradient import differentiate
from hetune.variants.passes.pipeline import clean, without_unread
from hetune.variants.program.nodes import (
    ALL_EDGES,
    End,
    Map,
    Op,
    Program,
    Reduce,
    Reshape,
    Space,
)


@dataclass(frozen=True, slots=True)
class EdgeTerm:
    """What nodes or types have the sum of.

    Attributes:
        rows: The name of a value with rows of all edges.
        end: Whose nodes have them; NONE of edge types.
        factor: What they are multiplied by.
    """

    rows: str
    end: End
    factor: float


Gradient = str | tuple[EdgeTerm, ...]
"""The name of a value, or what nodes or types have the sum of."""


def edge_gradients(
    program: Program, wanted: tuple[str, ...]
) -> tuple[Program, tuple[Gradient, ...]] | None:
    """The gradients of parameters, those of rows of nodes and types by edges.

    Args:
        program: As of `differentiate`.
        wanted: Likewise.

    Returns:
        A program like that of `differentiate`, and the gradients in order; None where nodes' rows
        are no sums over edges, or there are none.

    Raises:
        ProgramError: As of `differentiate`.
    """
    whole = differentiate(program, wanted)
    types, ops = whole.types, {let.name: let.op for let in whole.lets}
    found: list[Gradient] = []
    for name in whole.results:
        try:
            found.append(tuple(_terms(name, 1.0, ops, whole)))
        except _NoSumError:
            found.append(name)
    if any(isinstance(each, str) and types[each].space is Space.NODE for each in found):
        return None
    named = dict.fromkeys(name for each in found for name in names_of(each))
    read = clean(replace(whole, results=tuple(named)))
    now = dict(zip(named, read.results, strict=True))
    gradients = tuple(
        now[each]
        if isinstance(each, str)
        else tuple(replace(term, rows=now[term.rows]) for term in each)
        for each in found
    )
    return without_unread(replace(read, results=tuple(dict.fromkeys(read.results)))), gradients


class _NoSumError(Exception):
    """A value is no sum over edges that is worth taking apart."""


def _terms(name: str, factor: float, ops: dict[str, Op], program: Program) -> Iterator[EdgeTerm]:
    match ops.get(name):
        case Map("add", (x, y)) if program.type_of(x) == program.type_of(y):
            yield from _terms(x, factor, ops, program)
            yield from _terms(y, factor, ops, program)
        case Map("scale", (x,), float(const)):
            yield from _terms(x, factor * const, ops, program)
        case Reshape(x):
            yield from _terms(x, factor, ops, program)
        case Reduce(x, Space.NODE | Space.ETYPE, "sum", end) if _are_summed(program, ops, x):
            while isinstance(op := ops.get(x), Map) and op.fn == "scale" and op.const is not None:
                x, factor = op.args[0], factor * op.const
            yield EdgeTerm(x, end, factor)
        case _:
            raise _NoSumError


def _are_summed(program: Program, ops: dict[str, Op], name: str) -> bool:
    """Whether rows of edges are stored, then added up; matrices are added up as they are made."""
    kind, op = program.type_of(name), ops.get(name)
    is_matrix = isinstance(op, Map) and op.fn == "outer"
    return kind.space is Space.EDGE and kind.group == ALL_EDGES and not is_matrix


def names_of(gradient: Gradient) -> tuple[str, ...]:
    """The values that a gradient is made of."""
    return (gradient,) if isinstance(gradient, str) else tuple(term.rows for term in gradient)
