"""Who computes the parts of a layer, and where."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np

from hetune.variants.errors import MemoryLimitError
from hetune.variants.exhaustion import is_out_of_memory
from hetune.variants.partition.layers import PartitionedLayer, run_part
from hetune.variants.partition.partitions import Partitions
from hetune.variants.partition.row_files import RowsLike, open_rows

PartRows: TypeAlias = tuple[np.ndarray, str] | None
"""Rows of a part, float32 [nodes, width], and the variant that computed them; None: no room."""


@dataclass(frozen=True, slots=True)
class LayerParts:
    """A layer on a graph, to be called for parts of it.

    Attributes:
        layer: The layer.
        partitions: Of the graph.
        rows: Its input; a file is opened where a part is computed.
        memory: Most bytes that a part may take.
        variant: Id of the variant to run.
    """

    layer: PartitionedLayer
    partitions: Partitions
    rows: RowsLike
    memory: int
    variant: str | None

    def __call__(self, first: int, last: int) -> PartRows:
        """The rows of the nodes of some ranges; None where several ranges do not fit.

        Raises:
            MemoryLimitError: One range does not fit.
            VariantError: There is no such variant.
        """
        rows = open_rows(self.rows, self.partitions.num_nodes)
        given = self.layer, self.partitions, rows, first, last, self.memory, self.variant
        try:
            result, variant = run_part(*given)
        except (MemoryLimitError, MemoryError, RuntimeError) as error:
            if not (isinstance(error, MemoryLimitError) or is_out_of_memory(error)):
                raise
            if last - first == 1:
                raise MemoryLimitError(f"{error}; give more memory") from error
            return None
        return result.detach().cpu().numpy(), variant

    def bytes_of(self, first: int, last: int) -> int:
        """About what some ranges need."""
        starts, bounds = self.partitions.starts, self.partitions.bounds
        edges, targets = (int(each[last] - each[first]) for each in (starts, bounds))
        return self.layer.bytes_of(edges, targets, self.partitions.num_nodes)


class Executor(Protocol):
    """Computes parts of one layer after another.

    Attributes:
        slots: How many parts may be started before a result is asked for.
    """

    slots: int

    def begin(self, parts: LayerParts) -> None:
        """Parts are of this layer from now on."""

    def start(self, first: int, last: int) -> None:
        """Has a part computed."""

    def result(self) -> tuple[tuple[int, int], PartRows]:
        """A part that was started, and what it gave; waits for one."""


class InOrder:
    """Computes one part at a time, in this process."""

    slots = 1

    def begin(self, parts: LayerParts) -> None:
        """Parts are of this layer from now on."""
        self._parts = parts

    def start(self, first: int, last: int) -> None:
        """Notes the part."""
        self._ranges = first, last

    def result(self) -> tuple[tuple[int, int], PartRows]:
        """Computes the part."""
        return self._ranges, self._parts(*self._ranges)
