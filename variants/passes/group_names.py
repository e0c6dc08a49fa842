"""Groups of edge types under other names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hetune.variants.program.nodes import ALL_EDGES, Count, Group, Let, Op, Program, Take, Type


def with_groups(program: Program, groups: Mapping[str, Group]) -> Program:
    """The program with another group for each of its groups; several may become one.

    Args:
        program: The program.
        groups: What becomes of each, by its name.
    """
    names = {name: group.name for name, group in groups.items()} | {ALL_EDGES: ALL_EDGES}
    lets = tuple(
        Let(let.name, _renamed_type(let.type, names), _renamed(let.op, names))
        for let in program.lets
    )
    kept = dict.fromkeys(groups[group.name] for group in program.groups)
    return replace(program, lets=lets, groups=tuple(kept))


def _renamed(op: Op, names: dict[str, str]) -> Op:
    match op:
        case Take(group=group) | Count(group=group):
            return replace(op, group=names[group])
    return op


def _renamed_type(kind: Type, names: dict[str, str]) -> Type:
    return replace(kind, group=names[kind.group])
