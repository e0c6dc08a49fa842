"""Groups of edge types as kernels name them: by their rule, whatever a program calls them."""

from __future__ import annotations

from dataclasses import replace

from hetune.variants.errors import ProgramError
from hetune.variants.program.nodes import (
    ALL_EDGES,
    Count,
    Group,
    Let,
    Merge,
    Op,
    Program,
    Rule,
    Take,
    Type,
)


def by_rule(program: Program) -> Program:
    """The program with each group named by its rule.

    Raises:
        ProgramError: A group has no rule, or edges are merged from groups that leave some out.
    """
    without = [group.name for group in program.groups if group.rule is None]
    if without:
        raise ProgramError(
            f"program {program.name!r} does not say which edge types are in the groups "
            f"{', '.join(without)}: give them rules, e.g. groups({without[0]}: "
            f"{Rule.FEWER_SRC.name.lower()})"
        )
    names = {group.name: str(group.rule) for group in program.groups} | {ALL_EDGES: ALL_EDGES}
    for let in program.lets:
        if isinstance(let.op, Merge):
            merged = [names[program.type_of(part).group] for part in let.op.parts]
            if sorted(merged) != sorted(Rule):
                raise ProgramError(
                    f"program {program.name!r}: the groups that {let.name!r} merges do not hold "
                    "each edge type once: merge one group of each rule"
                )
    lets = tuple(
        Let(let.name, _renamed_type(let.type, names), _renamed(let.op, names))
        for let in program.lets
    )
    rules = dict.fromkeys(group.rule for group in program.groups)
    return replace(program, lets=lets, groups=tuple(Group(str(rule), rule) for rule in rules))


def _renamed(op: Op, names: dict[str, str]) -> Op:
    match op:
        case Take(group=group) | Count(group=group):
            return replace(op, group=names[group])
    return op


def _renamed_type(kind: Type, names: dict[str, str]) -> Type:
    return replace(kind, group=names[kind.group])
