"""A program with a label for readers."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Self

from hetune.variants.errors import ProgramError
from hetune.variants.program.canonical import digest
from hetune.variants.program.nodes import Program, Softmax, Space, Take, operands
from hetune.variants.program.text import parse, show
from hetune.variants.program.verify import verify


@dataclass(frozen=True, slots=True)
class LabeledProgram:
    """A program as it is measured, stored and reported. Its digest is its identity.

    Attributes:
        digest: `hetune.variants.program.canonical.digest` of the program.
        text: Its text, with the names of whoever wrote it.
        label: What it is called, e.g. the name of a preset: for readers, and to group reports by.
    """

    digest: str
    text: str = field(compare=False)
    label: str = field(compare=False)

    @classmethod
    def of(cls, program: Program, label: str | None = None) -> Self:
        """A program; its own name is the label unless one is given."""
        return cls(digest(program), show(program), program.name if label is None else label)

    @staticmethod
    def parse(text: str, label: str | None = None) -> LabeledProgram:
        """A program of its text.

        Raises:
            ProgramError: The text is no valid program.
        """
        return _labeled(text, label)

    @property
    def program(self) -> Program:
        """The program itself."""
        return _parsed(self.text)

    @property
    def d_in(self) -> int:
        """Width of the rows that come in: of its first feature; 0 if it has none."""
        params = self.program.params
        return next((param.type.width for param in params if param.role == "feature"), 0)

    @property
    def d_out(self) -> int:
        """Width of the rows that go out, all heads together: of its first result."""
        program = self.program
        return program.type_of(program.results[0]).width

    @property
    def heads(self) -> int:
        """Number of attention heads: scores that a softmax takes at once; 1 without any."""
        lets = self.program.lets
        return max((let.type.width for let in lets if isinstance(let.op, Softmax)), default=1)

    def describe(self) -> str:
        """Such as ``"mine 64->64, 4 heads"``."""
        heads = f", {self.heads} heads" if self.heads > 1 else ""
        return f"{self.label} {self.d_in}->{self.d_out}{heads}"


def needs_canonical_edges(program: Program) -> bool:
    """Whether each edge type of its graphs should join one pair of node types.

    It should where edges read rows that were made with weights of node types: the edge type then
    says which weights those were.
    """
    typed = {param.name for param in program.params if param.type.space is Space.NTYPE}
    for let in program.lets:
        if typed.isdisjoint(operands(let.op)):
            continue
        if isinstance(let.op, Take) and let.type.space is not Space.NODE:
            return True
        typed.add(let.name)
    return False


@functools.lru_cache(maxsize=1024)
def _labeled(text: str, label: str | None) -> LabeledProgram:
    """A store has thousands of measurements of each program."""
    return LabeledProgram.of(_parsed(text), label)


@functools.lru_cache(maxsize=1024)
def _parsed(text: str) -> Program:
    program = parse(text)
    try:
        verify(program)
    except ProgramError as error:
        raise ProgramError(f"program {program.name!r}: {error}") from None
    return program
