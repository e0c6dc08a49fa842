"""What no kernel computes yet: such programs run in the interpreter."""

from __future__ import annotations

from hetune.variants.program.columns import by_columns
from hetune.variants.program.derived_weights import derived_weights
from hetune.variants.program.nodes import (
    ALL_EDGES,
    Concat,
    End,
    Let,
    Map,
    Program,
    Reduce,
    Reshape,
    Slice,
    Space,
    Take,
    Type,
)
from hetune.variants.program.text import show_space


def limitation(program: Program) -> str | None:
    """Why a verified program has no kernels, for a reader; None where it has."""
    program = by_columns(program)
    types, weights = program.types, {let.name for let in derived_weights(program)}
    weights |= {param.name for param in program.params}
    for name in program.results:
        kind = types[name]
        if kind.space.is_weight:
            if name in weights:
                return f"its result {name} depends on weights alone"
            continue
        if kind.space not in (Space.NODE, Space.EDGE) or kind.group != ALL_EDGES:
            rows = show_space(kind.space, kind.group)
            return f"its result {name} has {rows} rows: return those of nodes, edges or types"
    reasons = (_limitation(let, types, weights) for let in program.lets)
    return next((reason for reason in reasons if reason), None)


def _limitation(let: Let, types: dict[str, Type], weights: set[str]) -> str | None:
    if let.type.space.is_weight and let.name not in weights:
        return _limitation_of_sum(let, types, weights)
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
        case Reduce(space=space) as op if space not in (Space.NODE, Space.DST_PAIR):
            return _unsupported(let.name, op)
        case Reduce(fn=fn, end=End.SRC):
            return f"{let.name} is a {fn} at sources: only those at destinations are supported"
        case Take(x=x) if types[x].space is Space.SHARED:
            return f"{let.name} copies a shared row: it joins any rows as it is"
    return None


def _unsupported(name: str, op: Reduce) -> str:
    return (
        f"{name} is a {op.fn} into {op.space} rows: only reductions into nodes and destination "
        "pairs, and sums of rows into types, are supported"
    )


def _limitation_of_sum(let: Let, types: dict[str, Type], weights: set[str]) -> str | None:
    """Of a value in a weight space that depends on rows: sums of these, and sums of such."""
    match let.op:
        case Reduce(x=x, fn="sum") if types[x].space is Space.SOURCE:
            return f"{let.name} sums rows of sources: take them to pairs or edges first"
        case Reduce(x=x, fn="sum") if not types[x].space.is_weight:
            return None
        case Reduce() as op:
            return _unsupported(let.name, op)
        case Reshape():
            return None
        case Map(fn="add", args=args) if weights.isdisjoint(args):
            if all(types[arg] == let.type for arg in args):
                return None
    return (
        f"{let.name} has rows of types that depend on others': only sums into types are supported"
    )
