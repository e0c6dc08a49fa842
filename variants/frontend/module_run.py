"""How long a module itself takes, which decides what is worth compiling for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ModuleRun:
    """A module's own run: microseconds of one core of a server, about, and what it looks at.

    Attributes:
        once: Whatever the graph is.
        edge: More for each edge.
        node: More for each node.
        refuses_ids: Whether the module itself refuses all ids that are out of range.
    """

    once: float
    edge: float
    node: float = 0.0
    refuses_ids: bool = False
