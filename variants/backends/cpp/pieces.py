"""Rows cut into pieces that fit vector registers exactly: no masks, no reads past a row's end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hetune.variants.kernel.nodes import Element


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


def pointer_type(element: Element) -> str:
    """The C++ type of pointers into rows."""
    return "float*" if element is Element.FLOAT32 else "bf16*"


def loaded(element: Element, kind: str, row: str, column: int) -> str:
    """The expression that reads a vector (or number) of a row, at some column."""
    place = at(row, column) if element is Element.FLOAT32 else f"{row}, {column}"
    return f"load<{kind}>({place})"


def narrow_stores(
    row: str, pieces: Sequence[tuple[Piece, str]], column: str = "", *, is_aligned: bool = True
) -> Iterator[str]:
    """Calls that store pieces of a row of bfloat16, two at a time where they share words.

    Args:
        row: Pointer to the row.
        pieces: With their values.
        column: Where the first element of all pieces is.
        is_aligned: Whether that is a multiple of 32.
    """
    values = dict(pieces) if is_aligned else {}
    for piece, value in pieces:
        is_low = piece.offset % 32 < 16
        other = values.get(Piece(piece.offset + (16 if is_low else -16), piece.lanes))
        if other and not is_low:
            continue
        place = f"{column} + {piece.offset}" if column else str(piece.offset)
        both = f"{value}, {other}" if other else value
        yield f"store<{piece.type}>({row}, {place}, {both})"


def at(pointer: str, offset: int) -> str:
    """A pointer some elements further."""
    return f"{pointer} + {offset}" if offset else pointer
