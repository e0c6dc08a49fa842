"""Running passes: a pipeline is a tuple of small values, verified at every step."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Protocol

from hetune.variants.errors import PassError, ProgramError
from hetune.variants.passes.rewrite import rewrite
from hetune.variants.program.nodes import Program, operands
from hetune.variants.program.verify import verify


class Pass(Protocol):
    """A rewrite of programs; a frozen dataclass whose fields are its options."""

    def __call__(self, program: Program) -> Program:
        """The rewritten program, which computes the same result."""
        ...


def run_passes(passes: Iterable[Pass], program: Program) -> Program:
    """Applies passes in order.

    Raises:
        ProgramError: The program was invalid to begin with.
        PassError: A pass broke it, or could not be applied; names the pass.
    """
    verify(program)
    for step in passes:
        try:
            program = step(program)
            verify(program)
        except ProgramError as error:
            raise PassError(f"pass {step!r} broke program {program.name!r}: {error}") from error
    return program


def clean(program: Program) -> Program:
    """The program without equal and dead values (every rewrite does this too)."""
    return rewrite(program, lambda builder, op, hint: None)


def without_unread(program: Program) -> Program:
    """The program without parameters that no value or result is made of."""
    read = {*program.results, *(name for let in program.lets for name in operands(let.op))}
    return replace(program, params=tuple(p for p in program.params if p.name in read))
