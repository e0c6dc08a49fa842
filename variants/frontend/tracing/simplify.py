"""What a traced program says at length, in the program's own words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from hetune.variants.program.columns import by_columns
from hetune.variants.program.nodes import (
    Concat,
    End,
    Let,
    Map,
    Op,
    Program,
    Reduce,
    Reshape,
    Softmax,
    Space,
    Take,
    Type,
    operands,
)

_SMALLEST = 1e-12
"""What may be added to the sum of a softmax: less than 1 by more than a float can tell."""


def with_ends_swapped(lets: Iterable[Let], group: str, types: Mapping[str, Type]) -> list[Let]:
    """Values of a group of edges, turned round."""

    def turned(let: Let) -> Op:
        op = let.op
        if isinstance(op, Take | Reduce) and op.end is not End.NONE and op.space is not _PAIRS:
            edges = let.type if isinstance(op, Take) else types[op.x]
            if edges.group == group:
                return replace(op, end=End.DST if op.end is End.SRC else End.SRC)
        return op

    return [replace(let, op=turned(let)) for let in lets]


def with_direct_takes(lets: Iterable[Let]) -> list[Let]:
    """Values where edges read rows of sources where these are."""
    ops: dict[str, Op] = {}
    found = []
    for let in lets:
        match let.op:
            case Take(x, Space.EDGE, End.NONE):
                taken = ops.get(x)
                if isinstance(taken, Take) and taken.space is _PAIRS:
                    let = replace(let, op=Take(taken.x, Space.EDGE, End.SRC))
        ops[let.name] = let.op
        found.append(let)
    return found


_PAIRS = Space.SRC_PAIR
"""Sources with edges, where these are other nodes: taken from the rows of all sources."""


def with_softmaxes(lets: list[Let]) -> list[Let]:
    """Values where exponentials over their sums are softmaxes."""
    ops = {let.name: let.op for let in lets}
    return [
        let if (found := _softmax(let.op, ops.get)) is None else replace(let, op=found)
        for let in lets
    ]


def _softmax(op: Op, op_of: Callable[[str], Op | None]) -> Softmax | None:
    """The softmax that an operator is, over edges that share a destination, or a pair with it."""
    match op:
        case Map("div", (top, below)):
            pass
        case _:
            return None
    match op_of(top), op_of(below):
        case Map("exp", (shifted,)), Take(total, Space.EDGE, end):
            pass
        case _:
            return None
    match op_of(total):
        case Map("shift", (total,), float(term)) if 0 <= term <= _SMALLEST:
            pass
    space = Space.NODE if end is End.DST else Space.DST_PAIR
    if op_of(total) != Reduce(top, space, "sum", end):
        return None
    match op_of(shifted):
        case Map("sub", (score, taken)):
            match op_of(taken):
                case Take(largest, Space.EDGE, at) if at is end:
                    if op_of(largest) == Reduce(score, space, "max", end):
                        return Softmax(score, space)
    return Softmax(shifted, space)  # which is safe where exponentials would overflow


def needed(lets: list[Let], results: Iterable[str]) -> list[Let]:
    """The values that results need."""
    wanted, kept = set(results), []
    for let in reversed(lets):
        if let.name in wanted:
            wanted.update(operands(let.op))
            kept.append(let)
    return kept[::-1]


def follows_from_edges(program: Program) -> bool:
    """Whether a program computes something of nothing but features of edges and constants."""
    of_edges = {
        p.name for p in program.params if p.role == "feature" and p.type.space is Space.EDGE
    }
    known = {param.name for param in program.params if param.role == "constant"} | of_edges
    for let in program.lets:
        read = operands(let.op)
        if read and known.issuperset(read):
            known.add(let.name)
            if of_edges.intersection(read):
                if not isinstance(let.op, Reshape):
                    return True
                of_edges.add(let.name)
    return False


def with_parts_of_results(program: Program) -> tuple[Program, dict[str, tuple[str, ...]]]:
    """The program that returns what its results have side by side, and of what each consists.

    Where no result has, the program itself and nothing.
    """
    flat = by_columns(program)
    ops = {let.name: let.op for let in flat.lets}
    known = {p.name for p in flat.params if p.role != "feature"} | {
        let.name for let in flat.lets if let.type.space is not Space.NODE
    }
    joined: dict[str, tuple[str, ...]] = {}
    for whole, name in zip(program.results, flat.results, strict=True):
        op = ops.get(name)
        if isinstance(op, Reshape):
            op = ops.get(op.x)
        is_cut = isinstance(op, Concat) and not known & {*op.parts}
        joined[whole] = op.parts if is_cut and isinstance(op, Concat) else (name,)
    if all(len(parts) == 1 for parts in joined.values()):
        return program, {}
    parts = dict.fromkeys(part for parts in joined.values() for part in parts)
    results = tuple(part for part in parts if part in ops)
    lets = needed(list(flat.lets), results)
    used = {name for let in lets for name in operands(let.op)}
    params = tuple(param for param in flat.params if param.name in used)
    return replace(flat, params=params, lets=tuple(lets), results=results), joined
