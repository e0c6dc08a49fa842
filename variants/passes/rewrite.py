"""Rewriting programs: the bottom-up driver that passes share."""

from __future__ import annotations

from collections.abc import Callable

from hetune.variants.program.builder import Builder
from hetune.variants.program.nodes import Let, Op, Program, operands

RewriteRule = Callable[[Builder, Op, str], str | None]
"""Given the builder, an operator over already rewritten operands, and its old name: the name of
what replaces it, or None to keep it."""


def rewrite(program: Program, rule: RewriteRule) -> Program:
    """Applies a rule to every value, operands first. Also removes equal and dead values."""
    builder = Builder(program.params, program.groups)

    def value(op: Op, hint: str) -> str:
        replaced = rule(builder, op, hint)
        return builder.emit(op, hint) if replaced is None else replaced

    return builder.rebuilt(program, value)


def to_fixpoint(program: Program, rule: RewriteRule, limit: int = 8) -> Program:
    """Applies a rule until nothing changes."""
    for _ in range(limit):
        rewritten = rewrite(program, rule)
        if rewritten == program:
            return program
        program = rewritten
    return program


def users(program: Program) -> dict[str, tuple[Let, ...]]:
    """For each name the values that read it, in program order."""
    readers: dict[str, list[Let]] = {name: [] for name in program.types}
    for let in program.lets:
        for name in dict.fromkeys(operands(let.op)):
            readers[name].append(let)
    return {name: tuple(lets) for name, lets in readers.items()}
