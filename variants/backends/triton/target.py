"""The target-shaped IR: the part of Triton that kernels are made of.

Statements are nodes, expressions are text. Every decision has been taken before this IR is
built; `codegen` only prints it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Let:
    """``name = value``."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Do:
    """A call that is a statement."""

    call: str


@dataclass(frozen=True, slots=True)
class For:
    """``for name in range(0, stop, step)``."""

    name: str
    stop: str
    body: tuple[Statement, ...]
    step: int = 1


Statement = Let | Do | For


@dataclass(frozen=True, slots=True)
class Function:
    """A kernel.

    Attributes:
        name: Its name in the module.
        comment: What it computes.
        pointers: Its first parameters: type and name of each.
        counts: Its last ones, integers that no code is specialized on.
        body: Statements.
        warps: Warps of a program.
        stages: Depth of the software pipeline.
    """

    name: str
    comment: str
    pointers: tuple[tuple[str, str], ...]
    counts: tuple[str, ...]
    body: tuple[Statement, ...]
    warps: int = 1
    stages: int = 1


@dataclass(frozen=True, slots=True)
class Unit:
    """A module: what it is, and its kernels in the order in which they run."""

    comment: str
    helpers: tuple[str, ...]
    functions: tuple[Function, ...]


def assigned(body: Iterable[Statement]) -> Iterator[str]:
    """The names that statements give."""
    for statement in body:
        match statement:
            case Let(name):
                yield name
            case For(name, _, inner):
                yield name
                yield from assigned(inner)
