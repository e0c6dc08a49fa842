"""What lowering starts from: a program in the terms that kernels have."""

from __future__ import annotations

from hetune.variants.errors import ProgramError
from hetune.variants.plan.facts import with_degrees
from hetune.variants.plan.groups import by_rule
from hetune.variants.plan.type_sums import with_one_factor
from hetune.variants.program.by_identity import by_identity
from hetune.variants.program.columns import by_columns
from hetune.variants.program.limitation import limitation
from hetune.variants.program.nodes import Program


@by_identity
def prepared(program: Program) -> Program:
    """The program with one operand for each product, groups by their rules, degrees as values.

    Raises:
        ProgramError: No kernel computes it yet, or a group has no rule.
    """
    if reason := limitation(program):
        raise ProgramError(f"no kernel computes the program {program.name!r} yet: {reason}")
    return with_degrees(with_one_factor(by_rule(by_columns(program))))
