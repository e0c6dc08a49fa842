"""Schedules as a CPU's vector registers allow them."""

from __future__ import annotations

from dataclasses import replace

from hetune.variants.kernel.nodes import Schedule
from hetune.variants.registry.vectors import Vectors

_ROWS, _VECTORS = 6, 2
"""A register tile for 16 registers."""


def fitted(schedule: Schedule, vectors: Vectors) -> Schedule:
    """The schedule with vectors as wide as a register, and a tile that the registers hold.

    GCC keeps wider vectors in memory, and moves them there and back with every operation.
    """
    rows, columns = schedule.row_tile, schedule.col_vectors
    # A tile's sums, a row of the weights, and the number that both are multiplied with.
    if rows * columns + columns + 1 > vectors.count:
        rows, columns = _ROWS, _VECTORS
    lanes = min(schedule.lanes, vectors.lanes)
    return replace(schedule, lanes=lanes, row_tile=rows, col_vectors=columns)
