"""What is known of a program's values before anything is lowered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hetune.variants.program.nodes import (
    ALL_EDGES,
    Count,
    End,
    Let,
    Map,
    Op,
    Param,
    Program,
    Reduce,
    Reshape,
    Space,
    Take,
    Type,
    operands,
)

_ZERO_OF_ZERO = frozenset(
    {
        "relu", "gelu", "leaky_relu", "scale", "tanh", "silu", "elu", "sin", "abs", "sqrt",
        "rsqrt0", "square", "step",
    }
)  # fmt: skip
"""Functions of `Map` that are 0 at 0."""

_EXTREMES = ("max", "min")


def constants(program: Program) -> list[Let]:
    """Values that depend on the graph alone: on its counts, and on constants that are given."""
    known = {param.name for param in program.params if param.role == "constant"}
    found: list[Let] = []
    for let in program.lets:
        if let.type.space is Space.EDGE and let.type.group != ALL_EDGES:
            continue  # loops read what it is taken from: edge buffers hold all edges
        if isinstance(let.op, Take) and let.type.width > 1:
            continue  # wide rows are read where they are
        names = operands(let.op)
        if isinstance(let.op, Count) or (
            isinstance(let.op, Map | Take) and all(name in known for name in names)
        ):
            known.add(let.name)
            found.append(let)
    return found


def reordered_features(program: Program) -> tuple[Param, ...]:
    """Features in rows of edges: given in the graph's order, they are copied to the index's."""
    return tuple(
        param
        for param in program.params
        if param.role == "feature" and param.type.space is Space.EDGE
    )


def zero_without_edges(ops: Mapping[str, Op], name: str) -> bool:
    """Whether a node value is zero wherever a node has no incoming edge."""
    match ops.get(name):
        case Reduce(space=Space.NODE, fn=fn, end=end):
            return fn != "prod" and end is not End.SRC
        case Reshape(x=x):
            return zero_without_edges(ops, x)
        case Map(fn=fn, args=(x,)) if fn in _ZERO_OF_ZERO:
            return zero_without_edges(ops, x)
        case Map(fn="add" | "sub" | "mul" | "maximum" | "minimum", args=args):
            return all(zero_without_edges(ops, arg) for arg in args)  # 0 * inf is no number
    return False


def degrees(program: Program) -> dict[str, str]:
    """The values that hold nodes' in-degrees, by group."""
    return {
        let.op.group: let.name
        for let in program.lets
        if isinstance(let.op, Count) and let.op.space is Space.NODE and let.op.end is not End.SRC
    }


def with_degrees(program: Program) -> Program:
    """The program with the in-degrees that tell which nodes have a largest or least row."""
    types, known = program.types, degrees(program)
    groups = (
        types[let.op.x].group
        for let in program.lets
        if isinstance(let.op, Reduce) and let.op.space is Space.NODE and let.op.fn in _EXTREMES
    )
    added: list[Let] = []
    for group in dict.fromkeys(group for group in groups if group not in known):
        name = "degree"
        while name in types or any(let.name == name for let in added):
            name += "_"
        added.append(Let(name, Type(Space.NODE), Count(Space.NODE, group)))
    return replace(program, lets=(*added, *program.lets)) if added else program
