"""Lowers a Traversal: loops over nodes, pairs and edges, with rows and sums in registers."""

from __future__ import annotations

from collections.abc import Collection
from math import prod

from hetune.variants.backends.cpp.abi import Arguments
from hetune.variants.backends.cpp.column_tiles import ColumnTile, column_tiles
from hetune.variants.backends.cpp.folds import folded, from_numbers
from hetune.variants.backends.cpp.lanes import LANE_REDUCTIONS, LaneLoop, row_width
from hetune.variants.backends.cpp.parts import in_parts
from hetune.variants.backends.cpp.pieces import Piece, at, loaded, narrow_stores, pointer_type
from hetune.variants.backends.cpp.rows import block_range
from hetune.variants.backends.cpp.scopes import Frame, Scopes
from hetune.variants.backends.cpp.short_rows import short_rows, short_sums, spread, whole_pieces
from hetune.variants.backends.cpp.target import Assign, Declare, Do, For, Function, If, Statement
from hetune.variants.backends.cpp.values import (
    CppValue,
    apply,
    literal,
    piece_end,
    row_pieces,
    takes_vectors_alone,
)
from hetune.variants.backends.describe import describe_traversal
from hetune.variants.backends.places import VARIABLES, segment_array
from hetune.variants.kernel.nodes import (
    REDUCTIONS,
    Apply,
    Def,
    Element,
    FoldAxis,
    ForEach,
    Init,
    Inner,
    Launch,
    Read,
    Rows,
    Schedule,
    Stmt,
    Traversal,
    Update,
    Write,
)
from hetune.variants.kernel.passes.idle import adds_sums_over
from hetune.variants.kernel.walk import statements, writes
from hetune.variants.kernel.widths import apply_shape
from hetune.variants.program.nodes import Space

_ASSIGNMENTS = {"sum": "+=", "prod": "*="}


class TraversalLowering:
    """Lowers one Traversal of a launch into the function that runs a block of it."""

    def __init__(
        self,
        traversal: Traversal,
        name: str,
        launch: Launch,
        schedule: Schedule,
        arguments: Arguments,
        node_blocked: bool,
        *,
        leaves_out_idle: bool = False,
    ) -> None:
        self.traversal = traversal
        self.leaves_out_idle = leaves_out_idle
        self.name = name
        self.launch = launch
        self.schedule = schedule
        self.args = arguments
        self.scopes = Scopes(launch, arguments)
        self.node_blocked = node_blocked
        self.values: dict[str, CppValue] = {}
        self.reductions: dict[str, str] = {}
        self.stored = frozenset(writes(traversal))
        self.short = short_rows(traversal)
        self.preamble = Frame(traversal.rows, "")
        """What stands before the outermost loop."""
        self.tile = ColumnTile(schedule.lanes)
        """What the loop that is being lowered computes."""

    def functions(self) -> tuple[Function, ...]:
        """The function that runs a block."""
        rows = self.traversal.rows
        first, stop = block_range(self.args, rows, self.node_blocked)
        frame = Frame(rows, VARIABLES[rows.space], last="stop - 1")
        self._lower_body(frame, self.traversal.body)
        turn = (*frame.ahead, *frame.body)
        needed = adds_sums_over(self.traversal)
        if needed or self.leaves_out_idle:
            needed = needed or Rows(Space.EDGE)
            n, ends = frame.variable, segment_array(self.args, rows, needed)
            turn = (If(f"{ends}[{n}] == {ends}[{n} + 1]", (Do("continue"),)), *turn)
        loop = For("int64_t", frame.variable, first, "stop", turn)
        body = (Declare("const int64_t", "stop", stop), *self.preamble.body, loop)
        return (
            Function(
                describe_traversal(self.traversal),
                f"NOINLINE void {self.name}",
                ("const Context& c", "int64_t block"),
                body,
            ),
        )

    def row_body(self, given: str, width: int) -> tuple[Statement, ...]:
        """Statements for one row; the value ``given``, so wide, lies at ``row``."""
        frame = Frame(self.traversal.rows, VARIABLES[self.traversal.rows.space])
        for piece, text in self._value(given, (width,), row_pieces((width,), self.schedule.lanes)):
            value = f"load<{piece.type}>({at('row', piece.offset)})"
            frame.body.append(Declare(f"const {piece.type}", text, value))
        self._lower_body(frame, self.traversal.body)
        return tuple(frame.body)

    def _value(
        self, name: str, shape: tuple[int, ...], pieces: tuple[Piece, ...]
    ) -> tuple[tuple[Piece, str], ...]:
        """Pieces of a new value with C++ names for them."""
        ends = tuple(piece_end(piece, shape) for piece in pieces)
        unique = self.scopes.unique(name, ends)
        names = tuple((piece, unique + end) for piece, end in zip(pieces, ends, strict=True))
        self.values[name] = CppValue(shape, names)
        return names

    # --- statements ---------------------------------------------------------------------

    def _lower_body(self, frame: Frame, body: tuple[Stmt, ...]) -> None:
        self.scopes.frames.append(frame)
        for stmt in body:
            self._lower(stmt)
        self.scopes.frames.pop()

    def _lower(self, stmt: Stmt) -> None:
        match stmt:
            case Def():
                self._define(stmt)
            case Init():
                self._declare(stmt)
            case Update(name, value):
                self._update(name, value)
            case Write():
                self._store(stmt)
            case ForEach():
                self._for_each(stmt)

    def _define(self, stmt: Def) -> None:
        match stmt.expr:
            case Read():
                self._read(stmt.name, stmt.shape, stmt.expr)
            case Apply():
                self._apply(stmt.name, stmt.expr)
            case Inner():
                self._inner(stmt.name, stmt.expr)
            case FoldAxis(x) if x in self.short:
                self._short_sums(stmt.name, self.values[x])
            case FoldAxis(x, axis, fn):
                self.values[stmt.name] = folded(
                    self.scopes, stmt.name, self.values[x], axis, fn, self.schedule.lanes
                )

    def _declare(self, stmt: Init) -> None:
        self.reductions[stmt.name] = stmt.reduce
        pieces = row_pieces(stmt.shape, self.schedule.lanes)
        for piece, text in self._value(stmt.name, stmt.shape, pieces):
            number = REDUCTIONS[stmt.reduce]
            start = f"splat<{piece.type}>({literal(number)})" if number else f"{piece.type}{{}}"
            self.scopes.emit(Declare(piece.type, text, start))

    def _update(self, name: str, value: str) -> None:
        total, term = self.values[name], self.values[value]
        for piece, text in total.names:
            if not self.tile.has_effects_on(piece, total.shape):
                continue
            operand = term.piece(piece, total.shape)
            reduction = self.reductions[name]
            if reduction in _ASSIGNMENTS:
                self.scopes.emit(Assign(text, operand, _ASSIGNMENTS[reduction]))
            elif reduction == "max":
                self.scopes.emit(Assign(text, f"maximum<{piece.type}>({text}, {operand})"))
            else:
                operand = _splatted(operand, term, total.shape, piece)
                self.scopes.emit(Assign(text, apply(reduction, (text, operand), None)))

    def _store(self, stmt: Write) -> None:
        frame = self.scopes.inner
        kind = self.launch.type_of(stmt.buffer)
        value = self.values[stmt.value]
        shape = value.shape if prod(value.shape) == kind.width else kind.shape
        row = self.scopes.own(frame)
        self.scopes.expect(stmt.buffer, self.schedule.prefetch)
        element = self.launch.buffer(stmt.buffer).element
        out = self.scopes.pointer(frame, stmt.buffer, row, pointer_type(element), "out")
        pieces = [*value.names]
        if value.shape != shape:
            pieces = [
                (piece, _splatted(value.piece(piece, shape), value, shape, piece))
                for piece in row_pieces(shape, self.schedule.lanes)
            ]
        if element is Element.BFLOAT16:
            for call in narrow_stores(out, pieces):
                self.scopes.emit(Do(call))
            return
        for piece, text in pieces:
            place = at(out, piece.offset)
            if stmt.accumulate:
                text = f"load<{piece.type}>({place}) + {text}"
            self.scopes.emit(Do(f"store<{piece.type}>({place}, {text})"))

    def _for_each(self, loop: ForEach) -> None:
        whole, sums = self.tile, _updated(loop.body, self.values)
        for self.tile in column_tiles(loop.body, [self.values[name].shape for name in sums], whole):
            self._emit_loop(loop)
        self.tile = whole

    def _emit_loop(self, loop: ForEach) -> None:
        outer, variable = self.scopes.inner, VARIABLES[loop.rows.space]
        pointer = segment_array(self.args, outer.rows, loop.rows)
        first, stop = f"{pointer}[{outer.variable}]", f"{pointer}[{outer.variable} + 1]"
        end = self.scopes.named(outer, f"{variable}_end", stop, "const int32_t")
        frame = Frame(loop.rows, variable, last=self._last_edge(loop.rows))
        sums = self._sums(loop)
        width = row_width(loop, self.values, self.launch, self.schedule.lanes)
        updated = _updated(loop.body, self.values)
        if width and {self.reductions[name] for name in updated} <= LANE_REDUCTIONS:
            self.scopes.frames.append(frame)
            lanes = LaneLoop(self.scopes, self.values, self.reductions, width, self.schedule.lanes)
            lanes.lower(loop.body, first, end)
            self.scopes.frames.pop()
            return
        self._lower_body(frame, loop.body)
        innermost = not any(isinstance(stmt, ForEach) for stmt in loop.body)
        unroll = self.schedule.unroll if innermost and self.schedule.unroll > 1 else 0
        body = (*frame.ahead, *frame.body)
        self.scopes.emit(
            in_parts(
                first,
                end,
                sums,
                lambda start, stop: For("int32_t", variable, start, stop, body, unroll=unroll),
            )
        )

    def _sums(self, loop: ForEach) -> list[str]:
        """Registers of sums from outside of a loop that it adds to."""
        return [
            text
            for name in sorted(_updated(loop.body, self.values))
            if self.reductions[name] == "sum"
            for piece, text in self.values[name].names
            if self.tile.has_effects_on(piece, self.values[name].shape)
        ]

    def _last_edge(self, rows: Rows) -> str:
        """A name for the last edge of the block, if the loop is one over edges."""
        outermost = self.scopes.frames[0].rows
        if rows.space is not Space.EDGE:
            return ""
        value = f"{segment_array(self.args, outermost, rows)}[stop] - 1"
        return self.scopes.named(self.preamble, f"last_edge_{rows.group or 'all'}", value)

    # --- expressions --------------------------------------------------------------------

    def _read(self, name: str, shape: tuple[int, ...], read: Read) -> None:
        row = self.scopes.locate(read)
        # What this loop nest writes must be read where it stands, not before the loop.
        frame = self.scopes.inner if read.buffer in self.stored else row.frame
        self.scopes.prefetch(read.buffer, row, self.schedule.prefetch)
        element = self.launch.buffer(read.buffer).element
        pointers = f"const {pointer_type(element)}"
        source = self.scopes.pointer(frame, read.buffer, row, pointers, "in")
        for piece, text in self._value(name, shape, self._pieces(name, shape)):
            value = loaded(element, piece.type, source, piece.offset)
            frame.body.append(Declare(f"const {piece.type}", text, value))

    def _apply(self, name: str, expr: Apply) -> None:
        args = [self.values[arg] for arg in expr.args]
        shape = apply_shape(expr.fn, [arg.shape for arg in args])
        for piece, text in self._value(name, shape, self._pieces(name, shape)):
            if expr.fn == "outer":
                operands = _factors(args[0], args[1], piece)
            elif name in self.short:
                operands = tuple(
                    arg.piece(piece, shape) if arg.shape == shape else spread(arg, piece, shape[-1])
                    for arg in args
                )
            else:
                operands = tuple(arg.piece(piece, shape) for arg in args)
                if takes_vectors_alone(expr.fn):
                    operands = tuple(
                        _splatted(operand, arg, shape, piece)
                        for operand, arg in zip(operands, args, strict=True)
                    )
            value = apply(expr.fn, operands, expr.const)
            self.scopes.emit(Declare(f"const {piece.type}", text, value))

    def _pieces(self, name: str, shape: tuple[int, ...]) -> tuple[Piece, ...]:
        is_short, lanes = name in self.short, self.schedule.lanes
        return whole_pieces(shape, lanes) if is_short else self.tile.computed(shape)

    def _short_sums(self, name: str, x: CppValue) -> None:
        sums = short_sums(x, self.schedule.lanes)
        values = self._value(name, x.shape[:-1], tuple(piece for piece, _ in sums))
        for (piece, text), (_, total) in zip(values, sums, strict=True):
            self.scopes.emit(Declare(f"const {piece.type}", text, total))

    def _inner(self, name: str, expr: Inner) -> None:
        shape = max(self.values[expr.x].shape, self.values[expr.y].shape, key=len)[:-1]
        totals = [
            " + ".join(
                f"hsum({' + '.join(terms)})" if lanes > 1 else " + ".join(terms)
                for lanes, terms in products.items()
            )
            for products in self._products(expr)
        ]
        self.values[name] = from_numbers(self.scopes, name, shape, totals, self.schedule.lanes)

    def _products(self, expr: Inner) -> list[dict[int, list[str]]]:
        """What an inner product adds up: for each innermost row, products of pieces by lanes."""
        x, y = self.values[expr.x], self.values[expr.y]
        longer, shorter = (x, y) if len(x.shape) >= len(y.shape) else (y, x)
        width, others = longer.shape[-1], dict(shorter.names)
        heads: list[dict[int, list[str]]] = [{} for _ in range(prod(longer.shape) // width)]
        for piece, left in longer.names:
            right = others[Piece(piece.offset % prod(shorter.shape), piece.lanes)]
            products = heads[piece.offset // width]
            products.setdefault(piece.lanes, []).append(f"{left} * {right}")
        return heads


def _factors(x: CppValue, y: CppValue, piece: Piece) -> tuple[str, ...]:
    """What a piece of all products is a product of: an element, and a piece of the same head."""
    width = y.shape[-1]
    row = piece.offset // width
    head = row // x.shape[-1]
    own = Piece(head * width + piece.offset % width, piece.lanes)
    return x.element(row), y.piece(own, y.shape)


def _splatted(text: str, value: CppValue, shape: tuple[int, ...], piece: Piece) -> str:
    """A piece of the row; a float that broadcasts is made a vector."""
    return text if value.shape == shape or piece.lanes == 1 else f"splat<{piece.type}>({text})"


def _updated(body: tuple[Stmt, ...], known: Collection[str]) -> set[str]:
    """Accumulators from outside of a loop that it updates."""
    own = {s.name for s in statements(body) if isinstance(s, Init)}
    found = {s.name for s in statements(body) if isinstance(s, Update)}
    return (found - own) & set(known)
