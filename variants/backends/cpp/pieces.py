"""Rows cut into pieces that fit vector registers exactly: no masks, no reads past a row's end."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Piece:
    """``lanes`` (a power of two) elements of a row, from ``offset``."""

    offset: int
    lanes: int

    @property
    def type(self) -> str:
        """The C++ type of a piece."""
        return vector_type(self.lanes)


def vector_type(lanes: int) -> str:
    """The C++ type of so many float32."""
    return "float" if lanes == 1 else f"v{lanes}"


def cut(width: int, lanes: int, start: int = 0) -> tuple[Piece, ...]:
    """Pieces that do not overlap: 63 is 16 + 16 + 16 + 8 + 4 + 2 + 1 with 16 lanes."""
    pieces = []
    offset = 0
    while offset < width:
        while lanes > width - offset:
            lanes //= 2
        pieces.append(Piece(start + offset, lanes))
        offset += lanes
    return tuple(pieces)


def cover(width: int, lanes: int) -> tuple[Piece, ...]:
    """Fewest pieces that cover a row; the last may overlap the one before (63: 0, 16, 32, 47).

    Elements that two pieces share must be read by both before either is written.
    """
    while lanes > width:
        lanes //= 2
    rest = width % lanes
    pieces = tuple(Piece(offset, lanes) for offset in range(0, width - rest, lanes))
    if rest == 0:
        return pieces
    if rest & (rest - 1) == 0:
        return (*pieces, Piece(width - rest, rest))
    return (*pieces, Piece(width - lanes, lanes))


def at(pointer: str, offset: int) -> str:
    """A pointer some elements further."""
    return f"{pointer} + {offset}" if offset else pointer
