"""Rules that both kinds of kernel share."""

from __future__ import annotations

import re

from hetune.variants.errors import KernelError
from hetune.variants.kernel.nodes import Rows, Stmt
from hetune.variants.kernel.text import show_rows, show_statement, show_type
from hetune.variants.program.nodes import End, Space, Type

PAIRS = (Space.SRC_PAIR, Space.SRC_DENSE, Space.DST_PAIR)
ROW_SPACES = (Space.NODE, Space.EDGE, *PAIRS)
NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)

NODE_ENDS = {
    Space.NODE: (End.NONE,),
    Space.EDGE: (End.SRC, End.DST),
    Space.SRC_PAIR: (End.SRC,),
    Space.SRC_DENSE: (End.SRC,),
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
