"""What is found of programs, plans and launches, once for each: to hash one takes longer."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

_MOST = 1024
_Given = TypeVar("_Given")
_Found = TypeVar("_Found")


def by_identity(find: Callable[[_Given], _Found]) -> Callable[[_Given], _Found]:
    """Finds it once for the same object, which is kept."""
    known: dict[int, tuple[_Given, _Found]] = {}

    @wraps(find)
    def found(given: _Given) -> _Found:
        kept = known.get(id(given))
        if kept is None:
            if len(known) >= _MOST:
                known.clear()
            kept = known[id(given)] = given, find(given)
        return kept[1]

    return found
