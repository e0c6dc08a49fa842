"""Which of a graph's lists a loop follows, to count them."""

from __future__ import annotations

from hetune.variants.kernel.nodes import Rows
from hetune.variants.program.nodes import End, Space, Type


def lists_to(type: Type, end: End, loops: tuple[Rows, ...]) -> set[tuple[str, Rows]]:
    """The index lists that lead from the innermost loop's row to a buffer's."""
    rows = loops[-1]
    pair = next((loop for loop in loops if loop.space is Space.DST_PAIR), None)
    match type.space:
        case Space.NODE | Space.NTYPE:
            ntypes = {("ntype", Rows(Space.NODE))} if type.space is Space.NTYPE else set()
            if end is End.SRC:
                return {("src", rows), *ntypes}
            if end is End.NONE or any(loop.space is Space.NODE for loop in loops):
                return ntypes
            return {("dst", pair or rows), *ntypes}
        case Space.ETYPE:
            return {("etype", pair or rows)}
        case Space.EDGE:
            return {("position", rows)} if rows.group else set()
        case Space.SHARED:
            return set()
        case _:
            return set() if type.space in {lp.space for lp in loops} else {(type.space, rows)}
