"""Elements picked from rows of a few: by vectors of rows, not row by row."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from hetune.variants.backends.cpp.pieces import Piece
from hetune.variants.backends.cpp.values import CppValue, row_pieces
from hetune.variants.kernel.names import values_read
from hetune.variants.kernel.nodes import Apply, Def, FoldAxis, ForEach, Read, Stmt, Traversal, Write

_LONGEST = 4


def short_rows(traversal: Traversal) -> frozenset[str]:
    """Values of a loop that are many short rows, where elements of such rows are picked.

    That is, masked and summed up. No row of these is read, or made, for itself.
    """
    body = traversal.body
    if any(isinstance(stmt, ForEach) for stmt in body):
        return frozenset()
    shapes = {stmt.name: stmt.shape for stmt in body if isinstance(stmt, Def)}
    found = {stmt.name for stmt in body if isinstance(stmt, Def) and _is_short(stmt)}
    while others := {name for stmt in body for name in _row_by_row(stmt, shapes, found)}:
        found -= others
    exprs = [stmt.expr for stmt in body if isinstance(stmt, Def) and stmt.name in found]
    has_picks = any(isinstance(expr, Apply) and expr.fn == "mask" for expr in exprs)
    return frozenset(found) if has_picks else frozenset()


def _is_short(stmt: Def) -> bool:
    is_elementwise = isinstance(stmt.expr, Read | Apply)
    return is_elementwise and len(stmt.shape) > 1 and 1 < stmt.shape[-1] <= _LONGEST


def _row_by_row(stmt: Stmt, shapes: Mapping[str, tuple[int, ...]], short: set[str]) -> set[str]:
    """Short values that a statement reads, or makes, row by row."""
    names = {*values_read(stmt), stmt.name} if isinstance(stmt, Def) else {*values_read(stmt)}
    match stmt:
        case Write() | Def(expr=Read()):
            return set()
        case Def(expr=FoldAxis(x, axis, "sum")) if x in short and axis == len(shapes[x]) - 1:
            return set()
        case Def(name, shape, Apply(fn, args)) if fn != "outer" and name in short:
            if all(arg in short or shapes.get(arg) == shape[:-1] for arg in args):
                return set()
    return short & names


def spread(x: CppValue, piece: Piece, count: int) -> str:
    """A piece of short rows, each of one number of a value."""
    each = (x.element((piece.offset + i) // count) for i in range(piece.lanes))
    return f"{piece.type}{{{', '.join(each)}}}"


def short_sums(x: CppValue, lanes: int) -> list[tuple[Piece, str]]:
    """Pieces of the sums of all short rows: C++ expressions.

    Compilers make one permutation of two vectors of what is gathered for a vector here.
    """
    count, found = x.shape[-1], list[tuple[Piece, str]]()
    for piece in row_pieces(x.shape[:-1], lanes):
        terms = []
        for k in range(count):
            each = (x.element((piece.offset + i) * count + k) for i in range(piece.lanes))
            terms.append(f"{piece.type}{{{', '.join(each)}}}")
        found.append((piece, " + ".join(terms)))
    return found


def whole_pieces(shape: tuple[int, ...], lanes: int) -> tuple[Piece, ...]:
    """Pieces of a row that go on from one short row to the next."""
    return row_pieces((prod(shape),), lanes)
