"""Column tiles: a loop with very wide sums has a copy for some of their columns at a time.

So the sums stay in registers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from hetune.variants.backends.cpp.pieces import Piece
from hetune.variants.backends.cpp.values import row_pieces
from hetune.variants.kernel.nodes import Def, FoldAxis, Inner, Stmt, Update

_MOST_VECTORS = 20
"""Vectors of sums that one loop keeps in registers."""

_TILE_VECTORS = 16


@dataclass(frozen=True, slots=True)
class ColumnTile:
    """What a copy of a loop computes: everything, or some columns of wide rows.

    Attributes:
        lanes: Of the widest vector.
        columns: Elements of a wide row in a tile; 0 if the tile is everything.
        index: The tile's number.
        rank: That of the sums: rows of a lower one broadcast, and are computed whole.
    """

    lanes: int
    columns: int = 0
    index: int = 0
    rank: int = 0

    def has_effects_on(self, piece: Piece, shape: tuple[int, ...]) -> bool:
        """Whether this copy updates a piece of such a row; of narrow rows the first does."""
        if not self.columns:
            return True
        return self._holds(piece) if self._is_wide(shape) else self.index == 0

    def computed(self, shape: tuple[int, ...]) -> tuple[Piece, ...]:
        """Pieces of such a row that a definition yields: the tile's, and all of narrow rows."""
        pieces = row_pieces(shape, self.lanes)
        if not self.columns or len(shape) < self.rank or not self._is_wide(shape):
            return pieces
        return tuple(piece for piece in pieces if self._holds(piece))

    def _holds(self, piece: Piece) -> bool:
        return piece.offset // self.columns == self.index

    def _is_wide(self, shape: tuple[int, ...]) -> bool:
        return prod(shape) > _TILE_VECTORS * self.lanes // 2


def column_tiles(
    body: tuple[Stmt, ...], sums: Sequence[tuple[int, ...]], whole: ColumnTile
) -> tuple[ColumnTile, ...]:
    """A tile for each copy of a loop; ``whole`` if there is but one.

    Args:
        body: The loop's.
        sums: Row shapes of the sums from outside that it updates.
        whole: The tile that is everything.
    """
    lanes, widths = whole.lanes, [prod(shape) for shape in sums]
    vectors = sum(-(-width // lanes) for width in widths)
    if vectors <= _MOST_VECTORS or not all(map(_goes_by_columns, body)):
        return (whole,)
    columns = max(1, _TILE_VECTORS * max(widths) // sum(widths)) * lanes
    first = ColumnTile(lanes, columns, rank=max(map(len, sums)))
    return tuple(replace(first, index=i) for i in range(-(-max(widths) // columns)))


def _goes_by_columns(stmt: Stmt) -> bool:
    """Whether copies of a statement, for some columns each, do together what it does.

    What one of them stores the next would read; sums within a loop would be whole in none.
    """
    match stmt:
        case Def(expr=expr):
            return not isinstance(expr, Inner | FoldAxis)
        case Update():
            return True
        case _:
            return False
