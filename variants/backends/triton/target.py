"""The target-shaped IR: the part of Triton that kernels are made of.

Statements are nodes, expressions are text. Every decision has been taken before this IR is
built; `codegen` only prints it.
"""

from __future__ import annotations

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
    """A kernel; ``counts`` are its integer parameters, which no code is specialized on."""

    name: str
    comment: str
    pointers: tuple[str, ...]
    counts: tuple[str, ...]
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Unit:
    """A module: what it is, and its kernels in the order in which they run."""

    comment: str
    helpers: tuple[str, ...]
    functions: tuple[Function, ...]
