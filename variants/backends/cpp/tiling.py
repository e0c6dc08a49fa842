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


@dataclass(frozen=True, slots=True)
class Tiling:
    """Register tiles of M rows each, and the pieces of their columns."""

    rows: int
    column_tile: int
    """Columns of the tiles that a loop walks; 0 if there is no such loop."""
    column_stop: int
    pieces: tuple[Piece, ...]
    """Pieces of a tile of the loop."""
    tails: tuple[tuple[Piece, ...], ...]
    """Tiles behind the loop."""

    @property
    def heights(self) -> tuple[int, ...]:
        """Numbers of rows for which code is made, tallest first."""
        short = range(min(self.rows, SHORT_ROWS), 0, -1)
        return tuple(sorted({self.rows, *short}, reverse=True))


def tiling(gemm: Gemm, schedule: Schedule) -> Tiling:
    """Cut a product into tiles as wide as the schedule says, and taller where it is narrow."""
    n, pieces = gemm.n, cover(gemm.n, schedule.lanes)
    wide = max(1, schedule.col_vectors)
    if gemm.accumulate and len(pieces) > 1 and (wide == 1 or len(pieces) % wide == 1):
        # The last piece stands in a tile of its own: it must not add where another one has added.
        start = pieces[-2].offset + pieces[-2].lanes
        pieces = (*pieces[:-1], *cut(n - start, schedule.lanes, start))
    tiles = [pieces[i : i + wide] for i in range(0, len(pieces), wide)]
    columns = wide * schedule.lanes
    full = sum(1 for i, _ in enumerate(tiles) if (i + 1) * columns <= n)
    vectors = min(len(pieces), wide)
    accumulators = min(_ACCUMULATORS, schedule.row_tile * wide)
    rows = max(schedule.row_tile, min(_MOST_ROWS, accumulators // vectors))
    if full < 2:
        return Tiling(rows, 0, 0, (), tuple(tiles))
    return Tiling(rows, columns, full * columns, tiles[0], tuple(tiles[full:]))
