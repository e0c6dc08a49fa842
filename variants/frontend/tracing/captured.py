"""What a function reads besides its arguments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from itertools import islice
from types import CellType, CodeType, FunctionType
from typing import Any

_MOST = 1000
"""Of what is read of a container."""


def names_in(function: FunctionType) -> tuple[str, ...]:
    """The names of globals and attributes in a function, and in functions within it, in order."""
    return _names_in(function.__code__)


@cache
def _names_in(code: CodeType) -> tuple[str, ...]:
    inner = [const for const in code.co_consts if isinstance(const, CodeType)]
    return tuple(sorted({*code.co_names, *(name for each in inner for name in _names_in(each))}))


def read_by(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """The variables that a function reads from around it, by name: globals, and of closures."""
    known = function.__globals__
    yield from ((name, known[name]) for name in names_in(function) if name in known)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # nothing yet
            continue


def captured(function: FunctionType) -> tuple[tuple[str, object], ...]:
    """The numbers and texts that it reads so: a program takes them for granted.

    Also those in containers and attributes, and those that functions of its file read.
    """
    return tuple(_plain_of(function, set()))


def _plain_of(function: FunctionType, known: set[int]) -> Iterator[tuple[str, object]]:
    known.add(id(function))
    waiting, names = [*read_by(function)], names_in(function)
    while waiting:
        name, value = waiting.pop()
        if value is None or isinstance(value, bool | int | float | str):
            yield name, value
            continue
        if id(value) in known:
            continue
        known.add(id(value))
        if isinstance(value, FunctionType):
            if value.__globals__ is function.__globals__:
                yield from _plain_of(value, known)
        elif isinstance(value, Mapping):
            waiting += [(f"{name}.{key}", part) for key, part in islice(value.items(), _MOST)]
        elif isinstance(value, list | tuple):
            waiting += [(f"{name}.{i}", part) for i, part in enumerate(islice(value, _MOST))]
        elif isinstance(own := getattr(value, "__dict__", None), Mapping):
            waiting += [(f"{name}.{key}", own[key]) for key in names if key in own]


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
