"""How a product is cut into register tiles."""

from __future__ import annotations

from dataclasses import dataclass

from hetune.variants.backends.cpp.pieces import Piece, cover, cut
from hetune.variants.kernel.nodes import Gemm, Schedule

SHORT_ROWS = 6
"""Every number of rows up to this one has a tile of its own."""

_MOST_ROWS = 12
"""Rows of the tallest register tile: each holds a pointer in a general register."""

_ACCUMULATORS = 16
"""Vectors that narrow tiles are grown to, if full ones have as many: they hide latency."""

_WIDEST_LANES = 16
_LATENCY = 4
"""Cycles of a multiplication; most CPUs begin two in a cycle, or one of the widest vectors."""


@dataclass(frozen=True, slots=True)
class ColumnTiling:
    """How the columns of a product are cut."""

    tile: int
    """Columns of the tiles that a loop walks; 0 if there is no such loop."""
    stop: int
    pieces: tuple[Piece, ...]
    """Pieces of a tile of the loop."""
    tails: tuple[tuple[Piece, ...], ...]
    """Tiles behind the loop."""

    @property
    def vectors(self) -> int:
        """Of the widest tile."""
        return max(map(len, (self.pieces, *self.tails)))


def tilings(gemm: Gemm, schedule: Schedule) -> dict[int, ColumnTiling]:
    """The tile of each number of rows for which code is made, tallest first.

    Tiles are as wide as the schedule says, taller where the product is narrow, and wider where they
    have few rows: groups of few rows are common where there are many relations.
    """
    wide = max(1, schedule.col_vectors)
    usual = _columns(gemm, schedule, wide)
    accumulators = min(_ACCUMULATORS, schedule.row_tile * wide)
    tallest = max(schedule.row_tile, min(_MOST_ROWS, accumulators // usual.vectors))
    enough = _LATENCY * (1 if schedule.lanes == _WIDEST_LANES else 2)
    found = {tallest: usual}
    for rows in range(min(tallest - 1, SHORT_ROWS), 0, -1):
        vectors = wide
        while rows * vectors < enough:
            vectors *= 2
        found[rows] = _columns(gemm, schedule, vectors)
    return found


def _columns(gemm: Gemm, schedule: Schedule, wide: int) -> ColumnTiling:
    """Cut the columns into tiles of so many vectors."""
    n, pieces = gemm.n, cover(gemm.n, schedule.lanes)
    if gemm.accumulate and len(pieces) > 1 and (wide == 1 or len(pieces) % wide == 1):
        # The last piece stands in a tile of its own: it must not add where another one has added.
        start = pieces[-2].offset + pieces[-2].lanes
        pieces = (*pieces[:-1], *cut(n - start, schedule.lanes, start))
    tiles = [pieces[i : i + wide] for i in range(0, len(pieces), wide)]
    columns = wide * schedule.lanes
    full = sum(1 for i, _ in enumerate(tiles) if (i + 1) * columns <= n)
    if full < 2:
        return ColumnTiling(0, 0, (), tuple(tiles))
    return ColumnTiling(columns, full * columns, tiles[0], tuple(tiles[full:]))
