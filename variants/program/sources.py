"""Programs whose edges may come from other nodes than they lead to."""

from __future__ import annotations

from dataclasses import replace

from hetune.variants.program.nodes import End, Let, Op, Param, Program, Space, Take

SOURCES = "sources"
"""What the rows of sources are called."""


def with_sources(program: Program) -> Program | None:
    """The program with its feature given twice: rows of targets, and `SOURCES`.

    It computes nothing for nodes that edges only come from. None where values that are computed of
    nodes are read at sources.
    """
    inputs = [param for param in program.params if param.role != "weight"]
    if SOURCES in program.types or [each.type.space for each in inputs] != [Space.NODE]:
        return None
    x = inputs[0]
    lets = tuple(replace(let, op=_at_sources(let, x.name)) for let in program.lets)
    at_source = [
        let.op.x
        for let in lets
        if isinstance(let.op, Take) and let.op.end is End.SRC and not let.type.space.is_weight
    ]
    if set(at_source) != {SOURCES} or SOURCES in program.types:
        return None
    sources = Param(SOURCES, replace(x.type, space=Space.SOURCE), x.role)
    return replace(program, params=(*program.params, sources), lets=lets)


def _at_sources(let: Let, x: str) -> Op:
    match let.op:
        case Take(x=taken, end=End.SRC) as op if taken == x:
            return replace(op, x=SOURCES)
    return let.op
