"""The target-shaped IR: the part of Triton that kernels are made of.

Statements are nodes, expressions are text. Every decision has been taken before this IR is
built; `codegen` only prints it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TritonLet:
    """``name = value``."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class TritonDo:
    """A call that is a statement."""

    call: str


@dataclass(frozen=True, slots=True)
class TritonFor:
    """``for name in range(0, stop, step)``."""

    name: str
    stop: str
    body: tuple[TritonStatement, ...]
    step: str = "1"


@dataclass(frozen=True, slots=True)
class TritonIf:
    """``if condition: ... else: ...``; a `TritonIf` alone in `otherwise` is an ``elif``."""

    condition: str
    then: tuple[TritonStatement, ...]
    otherwise: tuple[TritonStatement, ...]


@dataclass(frozen=True, slots=True)
class TritonCall:
    """A call of the function's `TritonCallee`: what follows the function's own parameters."""

    arguments: tuple[str, ...]


TritonStatement = TritonLet | TritonDo | TritonFor | TritonIf | TritonCall


@dataclass(frozen=True, slots=True)
class TritonCallee:
    """What a function calls; it has the function's parameters, and more.

    Attributes:
        numbers: Further parameters.
        constants: Those that are known when it is compiled.
        body: Statements.
    """

    numbers: tuple[str, ...]
    constants: tuple[str, ...]
    body: tuple[TritonStatement, ...]


@dataclass(frozen=True, slots=True)
class TritonFunction:
    """A kernel.

    Attributes:
        name: Its name in the module.
        comment: What it computes.
        pointers: Its first parameters: type and name of each.
        counts: Its last ones, integers that no code is specialized on.
        body: Statements.
        warps: Warps of a program.
        stages: Depth of the software pipeline.
        callee: What its body calls, if anything.
    """

    name: str
    comment: str
    pointers: tuple[tuple[str, str], ...]
    counts: tuple[str, ...]
    body: tuple[TritonStatement, ...]
    warps: int = 1
    stages: int = 1
    callee: TritonCallee | None = None

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of its parameters, in order."""
        return *(name for _, name in self.pointers), *self.counts


@dataclass(frozen=True, slots=True)
class TritonUnit:
    """A module: what it is, and its kernels in the order in which they run."""

    comment: str
    helpers: tuple[str, ...]
    functions: tuple[TritonFunction, ...]


def assigned(body: Iterable[TritonStatement]) -> Iterator[str]:
    """The names that statements give."""
    for statement in body:
        match statement:
            case TritonLet(name):
                yield name
            case TritonFor(name, _, inner):
                yield name
                yield from assigned(inner)
