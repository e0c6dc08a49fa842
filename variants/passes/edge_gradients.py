"""Gradients of rows of nodes as rows of edges, to be added up at their ends.

Where edges come once, as batches of triples do, no order of them by nodes is worth making.
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
    """What nodes have the sum of.

    Attributes:
        rows: The name of a value with rows of all edges.
        end: Whose nodes have them.
        factor: What they are multiplied by.
    """

    rows: str
    end: End
    factor: float


Gradient = str | tuple[EdgeTerm, ...]
"""The name of a value, or what nodes have the sum of."""


def edge_gradients(
    program: Program, wanted: tuple[str, ...]
) -> tuple[Program, tuple[Gradient, ...]] | None:
    """The gradients of parameters, those of nodes' rows by edges.

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
        if types[name].space is Space.NODE:
            try:
                found.append(tuple(_terms(name, 1.0, ops, whole)))
            except _NoSumError:
                return None
        else:
            found.append(name)
    if all(isinstance(each, str) for each in found):
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
    """A value of nodes is no sum over edges."""


def _terms(name: str, factor: float, ops: dict[str, Op], program: Program) -> Iterator[EdgeTerm]:
    match ops.get(name):
        case Map("add", (x, y)) if program.type_of(x) == program.type_of(y):
            yield from _terms(x, factor, ops, program)
            yield from _terms(y, factor, ops, program)
        case Map("scale", (x,), float(const)):
            yield from _terms(x, factor * const, ops, program)
        case Reshape(x):
            yield from _terms(x, factor, ops, program)
        case Reduce(x, Space.NODE, "sum", end) if _is_of_all_edges(program, x):
            while isinstance(op := ops.get(x), Map) and op.fn == "scale" and op.const is not None:
                x, factor = op.args[0], factor * op.const
            yield EdgeTerm(x, end, factor)
        case _:
            raise _NoSumError


def _is_of_all_edges(program: Program, name: str) -> bool:
    kind = program.type_of(name)
    return kind.space is Space.EDGE and kind.group == ALL_EDGES


def names_of(gradient: Gradient) -> tuple[str, ...]:
    """The values that a gradient is made of."""
    return (gradient,) if isinstance(gradient, str) else tuple(term.rows for term in gradient)
