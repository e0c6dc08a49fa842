"""Who computes the parts of a layer, and where."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Protocol, Self, TypeAlias

import numpy as np

from hetune.variants.errors import MemoryLimitError
from hetune.variants.exhaustion import is_out_of_memory
from hetune.variants.partition.layers import PartitionedLayer
from hetune.variants.partition.part_run import PartInputs, read_part, run_part
from hetune.variants.partition.partitions import Partitions
from hetune.variants.partition.row_files import RowsLike, open_rows

PartRows: TypeAlias = tuple[np.ndarray, str] | None
"""Rows of a part, float32 [nodes, width], and the variant that computed them; None: no room."""


@dataclass(frozen=True)
class LayerParts:
    """A layer on a graph, to be called for parts of it.

    Attributes:
        layer: The layer.
        partitions: Of the graph.
        rows: Of each of its inputs; a file is opened where a part is read, once.
        memory: Most bytes that a part may take, and what is read of the next one.
        variant: Id of the variant to run.
    """

    layer: PartitionedLayer
    partitions: Partitions
    rows: tuple[RowsLike, ...]
    memory: int
    variant: str | None

    def read(self, first: int, last: int) -> PartInputs:
        """What the layer reads for some ranges.

        Raises:
            MemoryLimitError: They do not fit.
        """
        given = self.layer, self.partitions, self._arrays
        return read_part(*given, first, last, self.memory, self.variant)

    def run(self, first: int, last: int, read: Callable[[], PartInputs]) -> PartRows:
        """The rows of the nodes of some ranges; None where several ranges do not fit.

        Raises:
            MemoryLimitError: One range does not fit.
            VariantError: There is no such variant.
        """
        try:
            given = self.layer, self.partitions, read(), self.memory, self.variant
            result, variant = run_part(*given)
        except (MemoryLimitError, MemoryError, RuntimeError) as error:
            if not (isinstance(error, MemoryLimitError) or is_out_of_memory(error)):
                raise
            if last - first == 1:
                raise MemoryLimitError(f"{error}; give more memory") from error
            return None
        return result.detach().cpu().numpy(), variant

    @cached_property
    def _arrays(self) -> tuple[np.ndarray, ...]:
        found = []
        for rows, given, param in zip(
            self.rows, self.layer.inputs, self.layer.adapter.inputs, strict=True
        ):
            array = open_rows(rows, self.partitions.num_nodes)
            found.append(array[:, given.first : given.first + param.type.width])
        return tuple(found)

    def bytes_of(self, first: int, last: int) -> int:
        """About what some ranges need."""
        starts, bounds = self.partitions.starts, self.partitions.bounds
        edges, targets = (int(each[last] - each[first]) for each in (starts, bounds))
        return self.layer.bytes_of(edges, targets, self.partitions.num_nodes)


class Executor(Protocol):
    """Computes parts of one layer after another.

    Attributes:
        slots: How many parts may be started before a result is asked for.
        least: How many parts a layer should be split into, at least.
    """

    slots: int
    least: int

    def begin(self, parts: LayerParts) -> None:
        """Parts are of this layer from now on."""

    def start(self, first: int, last: int) -> None:
        """Has a part computed."""

    def result(self) -> tuple[tuple[int, int], PartRows]:
        """A part that was started, and what it gave; waits for one."""


class InOrder:
    """Computes one part after the other, in this process, and reads the next one meanwhile.

    Once a part did not fit, none is read before it is its turn.
    """

    slots, least = 2, 1

    def begin(self, parts: LayerParts) -> None:
        """Parts are of this layer from now on."""
        self._parts = parts

    def start(self, first: int, last: int) -> None:
        """Has a part read."""
        read: Callable[[], PartInputs] = partial(self._parts.read, first, last)
        if self._reads_ahead:
            read = self._reader.submit(read).result
        self._started.append(((first, last), read))

    def result(self) -> tuple[tuple[int, int], PartRows]:
        """Computes the first part that is left."""
        ranges, read = self._started.popleft()
        rows = self._parts.run(*ranges, read)
        self._reads_ahead &= rows is not None
        return ranges, rows

    def __enter__(self) -> Self:
        self._started = deque[tuple[tuple[int, int], Callable[[], PartInputs]]]()
        self._reader, self._reads_ahead = ThreadPoolExecutor(1, "hetune-read"), True
        return self

    def __exit__(self, *_: object) -> None:
        """Leaves nothing running."""
        self._reader.shutdown(cancel_futures=True)
