"""The target-shaped IR: the part of C++ that kernels are made of.

Statements are nodes, expressions are text. Every decision has been taken before this IR is
built; `codegen` only prints it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Comment:
    """``// text``."""

    text: str


@dataclass(frozen=True, slots=True)
class Declare:
    """``type name = value;``; without a value it is only declared."""

    type: str
    name: str
    value: str = ""


@dataclass(frozen=True, slots=True)
class Assign:
    """``target op value;``."""

    target: str
    value: str
    op: str = "="


@dataclass(frozen=True, slots=True)
class Do:
    """``call;``."""

    call: str


@dataclass(frozen=True, slots=True)
class For:
    """``for (type var = start; var < stop; var += step)``; ``unroll``: so many copies."""

    type: str
    var: str
    start: str
    stop: str
    body: tuple[Statement, ...]
    step: str = "1"
    unroll: int = 0


@dataclass(frozen=True, slots=True)
class AcrossEdges:
    """A loop over edges ``e`` of which a vector ``V`` takes many: rows of ``width`` floats."""

    type: str
    width: int
    start: str
    stop: str
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class InParts:
    """Runs the body for each part of a range, from ``part_begin`` to ``part_end``.

    ``sums`` are registers that the body adds to: of a long range they are summed part by part.
    """

    start: str
    stop: str
    sums: tuple[str, ...]
    body: Statement


@dataclass(frozen=True, slots=True)
class ChunksWithStealing:
    """Runs the body once for each ``var`` below ``turns``, shared out among ``threads``.

    The first ``urgent`` are begun before all others. Declares ``overflowed``, under this name or
    another: whether a number outgrew a float.
    """

    var: str
    turns: str
    urgent: str
    body: tuple[Statement, ...]
    overflowed: str = "overflowed"


@dataclass(frozen=True, slots=True)
class While:
    """``while (condition)``."""

    condition: str
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class If:
    """``if (condition) ... else ...``."""

    condition: str
    body: tuple[Statement, ...]
    otherwise: tuple[Statement, ...] = ()


@dataclass(frozen=True, slots=True)
class Switch:
    """One call for each value; each case breaks."""

    value: str
    cases: tuple[tuple[str, Statement], ...]


@dataclass(frozen=True, slots=True)
class Scope:
    """``{ ... }``."""

    body: tuple[Statement, ...]


_Shaped = AcrossEdges | InParts | ChunksWithStealing
Statement = Comment | Declare | Assign | Do | For | _Shaped | While | If | Switch | Scope


@dataclass(frozen=True, slots=True)
class Function:
    """A function; ``head`` is all that stands before its parameters."""

    comment: str
    head: str
    parameters: tuple[str, ...]
    body: tuple[Statement, ...]
    template: str = ""


@dataclass(frozen=True, slots=True)
class Struct:
    """A plain struct."""

    comment: str
    name: str
    fields: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class TranslationUnit:
    """What follows the prelude in a translation unit; ``entry`` is the exported function."""

    comment: str
    context: Struct
    functions: tuple[Function, ...]
    entry: Function
