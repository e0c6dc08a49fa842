"""The vector registers that compiled code has."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Vectors:
    """The vector registers of a core.

    Attributes:
        lanes: float32 elements of one.
        count: How many there are.
    """

    lanes: int
    count: int


WIDEST = Vectors(16, 32)
"""AVX-512: what schedules are written for."""

_BY_MACRO = {
    "__AVX512F__": WIDEST,
    "__AVX__": Vectors(8, 16),
    "__aarch64__": Vectors(4, 32),
}
_LEAST = Vectors(4, 16)


def vectors_of(macros: str) -> Vectors:
    """Those that a compiler may use with its options.

    Args:
        macros: What it defines by itself: lines of ``#define NAME VALUE``.
    """
    defined = set(re.findall(r"^#define (\w+)", macros, re.MULTILINE))
    return next((found for name, found in _BY_MACRO.items() if name in defined), _LEAST)
