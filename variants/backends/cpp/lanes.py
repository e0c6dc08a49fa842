"""Loops over edges with narrow rows: a vector holds the rows of many edges side by side.

With rows of H floats (one per head) a vector of 16 lanes holds 16 / H edges. Buffers of edges
are read and written by whole vectors, others row by row; sums are kept per lane and folded once.
"""

from __future__ import annotations

from math import prod

from hetune.variants.backends.cpp.parts import in_parts
from hetune.variants.backends.cpp.pieces import vector_type
from hetune.variants.backends.cpp.scopes import Frame, Scopes
from hetune.variants.backends.cpp.target import AcrossEdges, Assign, Declare, Do
from hetune.variants.backends.cpp.values import CppValue, apply
from hetune.variants.backends.places import Row
from hetune.variants.kernel.nodes import (
    Apply,
    Def,
    ForEach,
    Launch,
    Read,
    Stmt,
    Update,
    Write,
)
from hetune.variants.program.nodes import Space

_WIDEST = 8

LANE_REDUCTIONS = frozenset({"sum", "max"})
"""What sums of such loops may be."""


def row_width(loop: ForEach, values: dict[str, CppValue], launch: Launch, lanes: int) -> int:
    """Floats in the rows of a loop that can go across edges; 0 if it cannot.

    All rows that differ between edges must have one width, a power of two of which a vector
    holds several, and no edge may depend on another one but by sums. Rows from outside are as wide,
    or single numbers.
    """
    if loop.rows.space is not Space.EDGE:
        return 0
    widths: set[int] = set()
    operands: set[str] = set()
    own = {stmt.name for stmt in loop.body if isinstance(stmt, Def)}
    for stmt in loop.body:
        match stmt:
            case Def(shape=shape, expr=Apply(args=args)):
                widths.add(prod(shape))
                operands.update(args)
            case Def(shape=shape, expr=Read()):
                widths.add(prod(shape))
            case Write(buffer=buffer, value=value, accumulate=False):
                widths.add(launch.type_of(buffer).width)
                operands.add(value)
            case Update(name=name, value=value):
                widths.add(prod(values[name].shape))
                operands.update((name, value))
            case _:
                return 0
    width = max(widths, default=0)
    outer = [values[name] for name in operands - own]
    if any(len(value.names) > 1 or prod(value.shape) not in (1, width) for value in outer):
        return 0
    if widths != {width} or width > min(_WIDEST, lanes // 2) or width & (width - 1):
        return 0
    return width


class LaneLoop:
    """Lowers one such loop; the innermost frame of the scopes is the loop's."""

    def __init__(
        self,
        scopes: Scopes,
        values: dict[str, CppValue],
        reductions: dict[str, str],
        width: int,
        lanes: int,
    ) -> None:
        self.scopes = scopes
        self.outer = values
        self.reductions = reductions
        self.width = width
        self.lanes = lanes
        self.inside: dict[str, str] = {}
        """C++ names of values in the loop."""
        self.sums: dict[str, str] = {}
        self.stored: set[str] = set()

    def lower(self, body: tuple[Stmt, ...], start: str, stop: str) -> None:
        """Append the loop to the enclosing frame.

        Args:
            body: Statements that `row_width` accepts.
            start: First edge.
            stop: The edge after the last.
        """
        frame, outer = self.scopes.inner, self.scopes.frames[-2]
        wide = vector_type(self.lanes)
        self.stored = {stmt.buffer for stmt in body if isinstance(stmt, Write)}
        for stmt in body:
            self._lower(stmt)
        folds = []
        for name, lanes in self.sums.items():
            is_sum = self.reductions[name] == "sum"
            zero = f"{wide}{{}}" if is_sum else f"splat<{wide}>(-infinity)"
            outer.body.append(Declare(wide, lanes, zero))
            row, kind = self._row_name(name), vector_type(self.width)
            folded = f"{'fold_sum' if is_sum else 'fold_max'}<{kind}>({lanes})"
            folds.append(
                Assign(row, folded, "+=")
                if is_sum
                else Assign(row, f"maximum<{kind}>({row}, {folded})")
            )
        outer.body.append(
            in_parts(
                start,
                stop,
                (lanes for name, lanes in self.sums.items() if self.reductions[name] == "sum"),
                lambda start, stop: AcrossEdges(wide, self.width, start, stop, tuple(frame.body)),
            )
        )
        outer.body += folds

    def _lower(self, stmt: Stmt) -> None:
        match stmt:
            case Def(name=name, expr=Read() as read):
                self._define(name, self._read(read))
            case Def(name=name, expr=Apply(fn, args, const)):
                operands = tuple(self._operand(arg) for arg in args)
                self._define(name, apply(fn, operands, const))
            case Update(name=name, value=value):
                if name not in self.sums:
                    self.sums[name] = self.scopes.unique(f"{name}_lanes")
                combine = "add_lanes" if self.reductions[name] == "sum" else "max_lanes"
                row = self._row_name(name)
                call = f"{combine}({self.sums[name]}, {row}, {self._operand(value)})"
                self.scopes.emit(Do(call))
            case Write(buffer=buffer, value=value):
                self._store(buffer, self._operand(value))
            case _:
                raise AssertionError(f"{stmt} does not go across edges")

    def _define(self, name: str, value: str) -> None:
        self.inside[name] = unique = self.scopes.unique(name)
        self.scopes.emit(Declare("const V", unique, value))

    def _operand(self, name: str) -> str:
        if name in self.inside:
            return self.inside[name]
        return f"repeat<V>({self._row_name(name)})"

    def _row_name(self, name: str) -> str:
        """A row of an enclosing loop; as narrow as it is, it lies in one register."""
        ((_, text),) = self.outer[name].names
        return text

    def _read(self, read: Read) -> str:
        scopes, row = self.scopes, self.scopes.locate(read)
        base, kind = scopes.args.buffer(read.buffer), vector_type(self.width)
        if row.frame is not scopes.inner:
            frame = scopes.frames[-2] if read.buffer in self.stored else row.frame
            pointer = scopes.pointer(frame, read.buffer, row, "const float*", "in")
            return f"repeat<V>(load<{kind}>({pointer}))"
        match row.path:
            case ():
                return f"load<V>({self._place(base)})"
            case ((_, array),):
                return f"gather<V, {self.width}>({base}, {array} + e)"
            case _:
                return self._gather_far(base, row)

    def _gather_far(self, base: str, row: Row[Frame]) -> str:
        """Rows behind two arrays: the second's entries are looked up first."""
        (_, first), (_, second) = row.path
        return f"gather<V, {self.width}>({base}, {second}, {first} + e)"

    def _place(self, base: str) -> str:
        return f"{base} + e" if self.width == 1 else f"{base} + int64_t(e) * {self.width}"

    def _store(self, buffer: str, value: str) -> None:
        base, row = self.scopes.args.buffer(buffer), self.scopes.own(self.scopes.inner)
        if not row.path:
            self.scopes.emit(Do(f"store<V>({self._place(base)}, {value})"))
            return
        ((_, array),) = row.path
        self.scopes.emit(Do(f"scatter<V, {self.width}>({base}, {array} + e, {value})"))
