"""What values have rows of: sets of edges, parts of the rows, and types of edges and nodes."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from hetune.variants.frontend.tracing.not_traceable import LocatedNotTraceable


@dataclass(slots=True)
class EdgeSet:
    """Edges that messages go along.

    Attributes:
        group: What the recorder's types call them.
        ends: The index of each edge at either end, in the order in which they were met.
        count: How many there are.
        only: Why others' edges would have to be treated alike, with the line that met these.
    """

    group: str
    ends: list[Tensor]
    count: int
    only: LocatedNotTraceable


@dataclass(frozen=True, slots=True)
class RowTypes:
    """Of edges or of nodes.

    Attributes:
        index: The type of each, integers.
        count: How many types there are; 0 if no weight tells.
    """

    index: Tensor
    count: int


@dataclass(frozen=True, slots=True, eq=False)
class RowPart:
    """Some rows of nodes or of edges, or all in another order.

    Attributes:
        group: What the recorder's types call them.
        index: Their numbers, int64; of nodes, none twice.
        count: How many there are.
    """

    group: str
    index: Tensor
    count: int
