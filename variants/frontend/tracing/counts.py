"""Numbers that depend on the graph, with which Python computes and decides as usual."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class TracedSize(int):
    """A number of rows, of which a tape knows where it comes from.

    What is computed with it is one as well, and how it compares is checked when the tape is
    replayed. What makes a plain number of it (``int(n)``, ``range(n)``) is not seen: a tape then
    has another key for another graph.

    Attributes:
        tape: What records.
        slot: Where the tape has it.
    """

    tape: Any
    slot: int

    __hash__ = int.__hash__


def count(value: int, tape: Any, slot: int) -> TracedSize:
    """A number that a tape has in a slot."""
    found = TracedSize(value)
    found.tape, found.slot = tape, slot
    return found


def _seen(name: str) -> None:
    plain: Callable[..., Any] = getattr(int, name)

    def method(self: TracedSize, *others: Any) -> Any:
        return self.tape.computed(plain, (self, *others))

    setattr(TracedSize, name, method)


_ARITHMETIC = (
    "add",
    "sub",
    "mul",
    "floordiv",
    "mod",
    "pow",
    "lshift",
    "rshift",
    "and",
    "or",
    "xor",
)
for _name in (
    *_ARITHMETIC,
    *("radd", "rsub", "rmul", "rfloordiv", "rmod", "rpow", "neg", "abs"),
    *("bool", "lt", "le", "gt", "ge", "eq", "ne"),
):
    _seen(f"__{_name}__")
