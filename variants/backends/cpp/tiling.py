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
    usual = column_tiling(gemm.n, schedule.lanes, wide, adds=gemm.accumulate)
    tallest = tallest_tile(schedule, usual)
    enough = _LATENCY * (1 if schedule.lanes == _WIDEST_LANES else 2)
    found = {tallest: usual}
    for rows in range(min(tallest - 1, SHORT_ROWS), 0, -1):
        vectors = wide
        while rows * vectors < enough:
            vectors *= 2
        found[rows] = column_tiling(gemm.n, schedule.lanes, vectors, adds=gemm.accumulate)
    return found


def tallest_tile(schedule: Schedule, columns: ColumnTiling) -> int:
    """Rows of the tallest tile: more than the schedule says where there are few columns."""
    accumulators = min(_ACCUMULATORS, schedule.row_tile * max(1, schedule.col_vectors))
    return max(schedule.row_tile, min(_MOST_ROWS, accumulators // columns.vectors))


def column_tiling(n: int, lanes: int, wide: int, *, adds: bool) -> ColumnTiling:
    """Cut n columns into tiles of so many vectors, which may be added to what is there."""
    pieces = cover(n, lanes)
    if adds and len(pieces) > 1 and (wide == 1 or len(pieces) % wide == 1):
        # The last piece stands in a tile of its own: it must not add where another one has added.
        start = pieces[-2].offset + pieces[-2].lanes
        pieces = (*pieces[:-1], *cut(n - start, lanes, start))
    tiles = [pieces[i : i + wide] for i in range(0, len(pieces), wide)]
    columns = wide * lanes
    full = sum(1 for i, _ in enumerate(tiles) if (i + 1) * columns <= n)
    if full < 2:
        return ColumnTiling(0, 0, (), tuple(tiles))
    return ColumnTiling(columns, full * columns, tiles[0], tuple(tiles[full:]))
