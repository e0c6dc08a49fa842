"""Rules that both kinds of kernel share."""

from __future__ import annotations

import math
import re

from hetune.variants.errors import KernelError
from hetune.variants.kernel.nodes import Rows, Stmt
from hetune.variants.kernel.text import show_rows, show_statement, show_type
from hetune.variants.program.functions import MAP_ARITY, WITH_CONSTANT
from hetune.variants.program.nodes import End, Space, Type

OPERAND_FUNCTIONS = frozenset(fn for fn, arity in MAP_ARITY.items() if arity == 1) - {
    "reciprocal",
    "log",
    "rsqrt",
    "pow_c",
}
"""The functions that a product's operand may go through: padding of its rows stays finite."""

PAIRS = (Space.SRC_PAIR, Space.DST_PAIR)
ROW_SPACES = (Space.NODE, Space.EDGE, *PAIRS)
NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)

NODE_ENDS = {
    Space.NODE: (End.NONE,),
    Space.EDGE: (End.SRC, End.DST),
    Space.SRC_PAIR: (End.SRC,),
    Space.DST_PAIR: (End.DST,),
}
"""How a loop over a space's rows may name a node."""


class Check:
    """Looks up names and raises errors for one kernel."""

    def __init__(self, place: str, types: dict[str, Type]) -> None:
        self.place, self.types = place, types

    def error(self, problem: str, statement: Stmt | None = None) -> KernelError:
        """The error to raise, with the kernel and the statement named in front."""
        at = "" if statement is None else f", `{show_statement(statement)}`"
        return KernelError(f"{self.place}{at}: {problem}")

    def buffer(self, name: str, statement: Stmt | None = None) -> Type:
        """The type of a buffer that must be there."""
        if name not in self.types:
            known = ", ".join(self.types) or "none"
            raise self.error(
                f"there is no buffer {name!r} (there are: {known}): declare it, or correct the "
                "name",
                statement,
            )
        return self.types[name]

    def function(
        self, fn: str, arguments: int, const: float | None, statement: Stmt | None = None
    ) -> None:
        """There is such a function of so many arguments, with a constant or without."""
        arity = MAP_ARITY.get(fn)
        if arity is None:
            raise self.error(
                f"there is no function {fn!r}: use one of {', '.join(MAP_ARITY)}", statement
            )
        if arguments != arity:
            raise self.error(f"{fn} takes {arity} arguments, not {arguments}", statement)
        if fn in WITH_CONSTANT:
            if const is None or not math.isfinite(const):
                raise self.error(f"{fn} needs a finite constant: add const=...", statement)
        elif const is not None:
            raise self.error(f"{fn} takes no constant: drop it", statement)

    def rows(self, rows: Rows, statement: Stmt | None = None) -> None:
        """A loop can walk these rows."""
        if rows.space not in ROW_SPACES:
            raise self.error(
                f"cannot walk {rows.space} rows: use {', '.join(ROW_SPACES)}", statement
            )
        if rows.group and rows.space is Space.NODE:
            raise self.error(f"nodes have no groups: drop @{rows.group}", statement)
        if rows.group and not NAME.fullmatch(rows.group):
            raise self.error(
                f"group {rows.group!r} is no identifier: use letters, digits and _", statement
            )

    def own_row(self, name: str, rows: Rows, statement: Stmt | None = None) -> Type:
        """The type of a buffer that has a row for each of the loop's own rows."""
        type = self.buffer(name, statement)
        # Edge buffers hold all edges, whatever group the loop walks.
        wanted = Rows(rows.space) if rows.space is Space.EDGE else rows
        if Rows(type.space, type.group) != wanted:
            raise self.error(
                f"{name!r} is {show_type(type)} but the rows are {show_rows(rows)}: use a buffer "
                f"of {show_rows(wanted)}",
                statement,
            )
        return type
