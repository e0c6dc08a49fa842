"""Sums over many rows, part by part: a float32 that has grown large loses digits of what it adds.

Whatever loop adds to accumulators from outside is run by the prelude's `in_parts`, which knows how
long a part is: a long range has a sum for each, and these are added up as doubles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from hetune.variants.backends.cpp.target import InParts, Statement


def in_parts(
    start: str, stop: str, sums: Iterable[str], loop: Callable[[str, str], Statement]
) -> Statement:
    """A loop over int32 numbers whose sums keep their digits however long it is.

    Args:
        start: The first number.
        stop: The one after the last.
        sums: Accumulators that the loop adds to; without any it is left whole.
        loop: From the first number and the one after the last to the loop.
    """
    sums = tuple(sums)
    if not sums:
        return loop(start, stop)
    return InParts(start, stop, sums, loop("part_begin", "part_end"))
