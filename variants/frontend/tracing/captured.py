"""What a function reads besides its arguments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import CellType, CodeType, FunctionType
from typing import Any


def names_in(function: FunctionType) -> set[str]:
    """The names of globals and attributes in a function, and in functions within it."""
    codes, names = [function.__code__], set[str]()
    while codes:
        code = codes.pop()
        names.update(code.co_names)
        codes += [const for const in code.co_consts if isinstance(const, CodeType)]
    return names


def read_by(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """The variables that a function reads from around it, by name: globals, and of closures."""
    known = function.__globals__
    yield from ((name, known[name]) for name in sorted(names_in(function)) if name in known)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # nothing yet
            continue


def captured(function: FunctionType) -> tuple[tuple[str, object], ...]:
    """The numbers and texts among these: a program takes them for granted."""
    plain = bool | int | float | str
    return tuple((name, value) for name, value in read_by(function) if isinstance(value, plain))


def with_globals(
    function: FunctionType, known: Mapping[str, Any], closure: tuple[CellType, ...] | None = None
) -> FunctionType:
    """The same function with other globals, and with another closure if there is one."""
    made = FunctionType(
        function.__code__,
        dict(known),
        function.__name__,
        function.__defaults__,
        closure or function.__closure__,
    )
    made.__kwdefaults__ = function.__kwdefaults__
    return made
