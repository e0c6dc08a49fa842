"""A program with the label that somebody gave it."""

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

    @classmethod
    def parse(cls, text: str, label: str | None = None) -> Self:
        """A program of its text.

        Raises:
            ProgramError: The text is no valid program.
        """
        return cls.of(_parsed(text), label)

    @property
    def program(self) -> Program:
        """The program itself."""
        return _parsed(self.text)

    @property
    def d_in(self) -> int:
        """Width of the rows that come in: of its first feature."""
        return width_in(self.program)

    @property
    def d_out(self) -> int:
        """Width of the rows that go out, all heads together."""
        return width_out(self.program)

    @property
    def heads(self) -> int:
        """Number of attention heads; 1 where there is no attention."""
        return heads_of(self.program)

    def describe(self) -> str:
        """Such as ``"rgat 64->64, 4 heads"``."""
        heads = f", {self.heads} heads" if self.heads > 1 else ""
        return f"{self.label} {self.d_in}->{self.d_out}{heads}"


def width_in(program: Program) -> int:
    """Width of a program's first feature; 0 if it has none."""
    return next((param.type.width for param in program.params if param.role == "feature"), 0)


def width_out(program: Program) -> int:
    """Width of a program's result."""
    return program.type_of(program.result).width


def heads_of(program: Program) -> int:
    """How many scores a program's softmax takes at once; 1 without any."""
    scores = (let.type.width for let in program.lets if isinstance(let.op, Softmax))
    return max(scores, default=1)


def needs_canonical_edges(program: Program) -> bool:
    """Whether its graphs should have edge types that each join one pair of node types.

    So it is where edges read rows that were made with weights of node types: edge types then know
    whose.
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
def _parsed(text: str) -> Program:
    program = parse(text)
    try:
        verify(program)
    except ProgramError as error:
        raise ProgramError(f"program {program.name!r}: {error}") from None
    return program
