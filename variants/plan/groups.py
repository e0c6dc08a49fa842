"""Groups of edge types as kernels name them: by their rule, whatever a program calls them."""

from __future__ import annotations

from hetune.variants.errors import ProgramError
from hetune.variants.passes.group_names import with_groups
from hetune.variants.program.nodes import (
    ALL_EDGES,
    COMPLEMENTS,
    Group,
    Merge,
    Program,
    Rule,
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
            if not any(sorted(merged) == sorted(rules) for rules in COMPLEMENTS):
                raise ProgramError(
                    f"program {program.name!r}: the groups that {let.name!r} merges do not hold "
                    "each edge type once: merge groups that part them"
                )
    rules = {group.name: Group(str(group.rule), group.rule) for group in program.groups}
    return with_groups(program, rules)
