"""Numbers that depend on the graph, with which Python computes and decides as usual."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class TracedSize(int):
    """A number of rows, of which a tape knows where it comes from.

    Integers computed with it are some as well. How it compares, and what plain number is made of
    it (``int(n)``, ``n / 2``), is checked when the tape is replayed. Functions in C that read its
    value (``range(n)``, ``math.log2(n)``) are not seen: a tape has another key for another graph
    where they matter to what it records.

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


def _seen(name: str, is_plain: bool = False) -> None:
    func: Callable[..., Any] = getattr(int, name)

    def method(self: TracedSize, *others: Any) -> Any:
        return self.tape.computed(func, (self, *others), is_plain)

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
for _name in ("int", "float", "truediv", "rtruediv", "divmod", "rdivmod"):
    _seen(f"__{_name}__", is_plain=True)


def same_size(one: int, other: int) -> bool:
    """Whether two numbers come from the same place, where a tape knows that, or else are equal."""
    if isinstance(one, TracedSize) and isinstance(other, TracedSize):
        return one.slot == other.slot
    return int.__int__(one) == int.__int__(other)
