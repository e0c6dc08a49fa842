"""Values that come of an axis of a row: inner products and folds."""

from __future__ import annotations

from math import prod

from hetune.variants.backends.cpp.pieces import Piece
from hetune.variants.backends.cpp.scopes import Scopes
from hetune.variants.backends.cpp.target import Declare
from hetune.variants.backends.cpp.values import CppValue, apply, literal, piece_end, row_pieces

_COMBINES = {"sum": "add", "mean": "add", "max": "maximum", "min": "minimum"}
_ACROSS = {"add": "hsum", "maximum": "hlargest", "minimum": "hsmallest"}
"""What folds the lanes of a vector."""


def from_numbers(
    scopes: Scopes, name: str, shape: tuple[int, ...], numbers: list[str], lanes: int
) -> CppValue:
    """Emits a value whose elements are numbers: C++ expressions, one for each."""
    count = prod(shape)
    pieces = row_pieces(shape, lanes)
    single = tuple("" if count == 1 else f"_h{i}" for i in range(count))
    ends = tuple(
        single[piece.offset] if piece.lanes == 1 else piece_end(piece, shape) for piece in pieces
    )
    unique = scopes.unique(name, (*single, *ends))
    for end, number in zip(single, numbers, strict=True):
        scopes.emit(Declare("const float", unique + end, number))
    for piece, end in zip(pieces, ends, strict=True):
        if piece.lanes > 1:
            parts = ", ".join(unique + one for one in single[piece.offset :][: piece.lanes])
            scopes.emit(Declare(f"const {piece.type}", unique + end, f"{piece.type}{{{parts}}}"))
    return CppValue(shape, tuple((p, unique + end) for p, end in zip(pieces, ends, strict=True)))


def folded(scopes: Scopes, name: str, x: CppValue, axis: int, fn: str, lanes: int) -> CppValue:
    """Emits the fold of an axis of a value."""
    combine, extent = _COMBINES[fn], x.shape[axis]
    shape = x.shape[:axis] + x.shape[axis + 1 :]
    factor = f" * {literal(1 / extent)}" if fn == "mean" else ""
    if axis == len(x.shape) - 1:
        starts = range(0, prod(x.shape), extent)
        numbers = [f"{_across(x, start, extent, combine)}{factor}" for start in starts]
        return from_numbers(scopes, name, shape, numbers, lanes)
    inner = prod(x.shape[axis + 1 :])
    pieces = row_pieces(shape, lanes)
    ends = tuple(piece_end(piece, shape) for piece in pieces)
    unique = scopes.unique(name, ends)
    for piece, end in zip(pieces, ends, strict=True):
        first = piece.offset // inner * inner * extent + piece.offset % inner
        terms = [x.piece(Piece(first + i * inner, piece.lanes), x.shape) for i in range(extent)]
        text = _combined(terms, combine)
        scopes.emit(Declare(f"const {piece.type}", unique + end, f"({text}){factor}"))
    return CppValue(shape, tuple((p, unique + end) for p, end in zip(pieces, ends, strict=True)))


def _combined(terms: list[str], combine: str) -> str:
    text, *others = terms
    for term in others:
        text = apply(combine, (text, term), None)
    return text


def _across(x: CppValue, start: int, extent: int, combine: str) -> str:
    """One innermost row: pieces of equal size are combined first, then lanes."""
    by_lanes: dict[int, list[str]] = {}
    for piece, name in x.names:
        if start <= piece.offset < start + extent:
            by_lanes.setdefault(piece.lanes, []).append(name)
    numbers = [
        f"{_ACROSS[combine]}({_combined(terms, combine)})"
        if lanes > 1
        else _combined(terms, combine)
        for lanes, terms in by_lanes.items()
    ]
    text = _combined(numbers, combine)
    return f"({text})"
