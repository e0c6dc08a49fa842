"""Programs on reversed graphs."""

from __future__ import annotations

from dataclasses import replace

from hetune.variants.passes.group_names import with_groups
from hetune.variants.program.nodes import (
    Count,
    End,
    Group,
    Op,
    Program,
    Reduce,
    Softmax,
    Space,
    Take,
    Type,
)

_ENDS = {End.SRC: End.DST, End.DST: End.SRC, End.NONE: End.NONE}
_PAIRS = {Space.SRC_PAIR: Space.DST_PAIR, Space.DST_PAIR: Space.SRC_PAIR}
_NODES = {Space.NODE: Space.SOURCE, Space.SOURCE: Space.NODE}


def is_bipartite(program: Program) -> bool:
    """Whether edges come from other nodes than they lead to."""
    return any(kind.space is Space.SOURCE for kind in program.types.values())


def reverse(program: Program, bipartite: bool) -> Program:
    """The program that computes the same on a graph whose edges are turned round.

    Args:
        program: What it is of; it has no `Softmax`, which goes over destinations alone.
        bipartite: Whether rows of nodes become rows of sources, and the other way round.
    """
    groups = {
        group.name: Group(group.rule.reversed.value, group.rule.reversed) if group.rule else group
        for group in program.groups
    }
    turned = replace(
        program,
        params=tuple(replace(p, type=reversed_type(p.type, bipartite)) for p in program.params),
        lets=tuple(
            replace(let, type=reversed_type(let.type, bipartite), op=reversed_op(let.op, bipartite))
            for let in program.lets
        ),
    )
    return with_groups(turned, groups)


def reversed_op(op: Op, bipartite: bool) -> Op:
    """An operator on the reversed graph."""
    match op:
        case Take() | Reduce() | Count():
            return replace(op, space=_reversed(op.space, bipartite), end=_ENDS[op.end])
        case Softmax():
            raise AssertionError("softmax goes over destinations")
    return op


def reversed_type(kind: Type, bipartite: bool) -> Type:
    """The type of the same rows on the reversed graph."""
    return replace(kind, space=_reversed(kind.space, bipartite))


def _reversed(space: Space, bipartite: bool) -> Space:
    return _PAIRS.get(space, _NODES.get(space, space) if bipartite else space)
