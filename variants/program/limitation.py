"""What no kernel computes yet: such programs run in the interpreter."""

from __future__ import annotations

from hetune.variants.program.columns import by_columns
from hetune.variants.program.nodes import (
    ALL_EDGES,
    Concat,
    End,
    Let,
    Program,
    Reduce,
    Slice,
    Space,
    Take,
    Type,
)
from hetune.variants.program.text import show_space


def limitation(program: Program) -> str | None:
    """Why a verified program has no kernels, for a reader; None where it has."""
    program = by_columns(program)
    types = program.types
    for name in program.results:
        kind = types[name]
        if kind.space not in (Space.NODE, Space.EDGE) or kind.group != ALL_EDGES:
            rows = show_space(kind.space, kind.group)
            return f"its result {name} has {rows} rows: only rows of nodes or edges are supported"
    reasons = (_limitation(let, types) for let in program.lets)
    return next((reason for reason in reasons if reason), None)


def _limitation(let: Let, types: dict[str, Type]) -> str | None:
    if let.type.space.is_weight and not isinstance(let.op, Reduce | Take):
        return None  # computed once per set of parameters, by the interpreter
    if let.type.space is Space.SOURCE:
        return f"{let.name} has rows of sources: take them to pairs or edges first"
    match let.op:
        case Concat() | Slice():
            return (
                f"{let.name} has rows side by side that no product, function or sum takes apart: "
                "return the parts, or give them as features"
            )
        case Reduce(space=space, fn=fn) if space not in (Space.NODE, Space.DST_PAIR):
            return (
                f"{let.name} is a {fn} into {space} rows: only reductions into nodes and "
                "destination pairs are supported"
            )
        case Reduce(fn=fn, end=End.SRC):
            return f"{let.name} is a {fn} at sources: only those at destinations are supported"
        case Take(x=x) if types[x].space is Space.SHARED:
            return f"{let.name} copies a shared row: it joins any rows as it is"
    return None
