"""Inner products over an axis of a few elements: by vectors of rows, not row by row."""

from __future__ import annotations

from math import prod

from hetune.variants.backends.cpp.pieces import Piece
from hetune.variants.backends.cpp.values import CppValue, row_pieces
from hetune.variants.kernel.names import values_read
from hetune.variants.kernel.nodes import Def, ForEach, Inner, Read, Traversal

_LONGEST = 4


def short_rows(traversal: Traversal) -> frozenset[str]:
    """Values of a loop that are read whole, for inner products of many short rows with one."""
    body = traversal.body
    if any(isinstance(stmt, ForEach) for stmt in body):
        return frozenset()
    shapes = {stmt.name: stmt.shape for stmt in body if isinstance(stmt, Def)}
    found = {
        stmt.name
        for stmt in body
        if isinstance(stmt, Def) and isinstance(stmt.expr, Read) and _is_short(stmt.shape)
    }
    for stmt in body:
        expr = stmt.expr if isinstance(stmt, Def) else None
        if isinstance(expr, Inner) and expr.x in found and shapes[expr.y] == shapes[expr.x][-1:]:
            continue
        found.difference_update(values_read(stmt))
    return frozenset(found)


def _is_short(shape: tuple[int, ...]) -> bool:
    return len(shape) > 1 and 1 < shape[-1] <= _LONGEST


def short_products(x: CppValue, y: CppValue, lanes: int) -> list[tuple[Piece, str]]:
    """Pieces of the inner products of all short rows with one: C++ expressions.

    Compilers make one permutation of two vectors of what is gathered for a vector here.
    """
    count, found = x.shape[-1], list[tuple[Piece, str]]()
    for piece in row_pieces(x.shape[:-1], lanes):
        terms = []
        for k in range(count):
            each = (x.element((piece.offset + i) * count + k) for i in range(piece.lanes))
            terms.append(f"{y.element(k)} * {piece.type}{{{', '.join(each)}}}")
        found.append((piece, " + ".join(terms)))
    return found


def whole_pieces(shape: tuple[int, ...], lanes: int) -> tuple[Piece, ...]:
    """Pieces of a row that go on from one short row to the next."""
    return row_pieces((prod(shape),), lanes)
