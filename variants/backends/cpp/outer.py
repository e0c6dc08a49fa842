"""Lowers an Outer: chunks of rows of one type, whose sums are added up in order.

A chunk's rows come in panels, and each panel goes through register tiles of the sum: some rows of
the left operand's columns times some vectors of the right one's. Denormal floats count as 0.
"""

from __future__ import annotations

from dataclasses import replace

from hetune.variants.backends.cpp.abi import Arguments, ChunksSlot
from hetune.variants.backends.cpp.operand import Operand, each_row
from hetune.variants.backends.cpp.pieces import Piece, at, cut
from hetune.variants.backends.cpp.rows import own_row
from hetune.variants.backends.cpp.target import (
    Assign,
    Declare,
    Do,
    For,
    Function,
    If,
    Scope,
    Statement,
    While,
)
from hetune.variants.backends.cpp.tile_row import sum_text
from hetune.variants.backends.cpp.tiling import column_tiling, tallest_tile
from hetune.variants.backends.describe import describe_outer
from hetune.variants.graph.type_chunks import most_chunks
from hetune.variants.kernel.nodes import Gather, Launch, Outer, Rows, Schedule, SegmentSum
from hetune.variants.program.nodes import Space

_PANEL, _TALL_PANEL, _LARGE = 32, 128, 1 << 14
"""Rows of a panel, which a cache holds with the sum; and of one whose sum has more elements."""

_MOST_STACK = 1 << 17
"""Bytes that the arrays of a function may have on a thread's stack."""

_STRIPE = 64
"""Elements of which terms are added up at a time."""


class OuterLowering:
    """Lowers the Outer of a launch into the functions that run a block, and end with a type."""

    def __init__(
        self, outer: Outer, name: str, launch: Launch, schedule: Schedule, arguments: Arguments
    ) -> None:
        if outer.n == 1 and outer.x is not None:  # vectors go along the longer side
            outer = replace(outer, x=outer.y, y=outer.x, k=1, n=outer.k)
        self.outer, self.name, self.launch = outer, name, launch
        self.schedule, self.args = schedule, arguments
        factors = outer.factors
        *left, self.y = (
            Operand(factor, f"{name}_{side}", launch, schedule, arguments)
            for side, factor in zip("xy" if len(factors) > 1 else "y", factors, strict=True)
        )
        self.x = left[0] if left else None
        self.size = outer.heads * outer.k * outer.n
        self.panel = _TALL_PANEL if self.size > _LARGE else _PANEL
        self.columns = column_tiling(
            outer.n, schedule.lanes, max(1, schedule.col_vectors), adds=True
        )
        tallest = tallest_tile(schedule, self.columns)
        self.height = -(-outer.k // -(-outer.k // tallest))
        self.into = launch.type_of(outer.out).space

    @property
    def types(self) -> str:
        """How many sums there are."""
        return self.args.count(Rows(self.into))

    def functions(self) -> tuple[Function, ...]:
        """Functions in the order of their definition."""
        operands = [operand for operand in (self.x, self.y) if operand]
        sums = [each.segment_sum() for each in operands if isinstance(each.factor.x, SegmentSum)]
        return (*sums, self._tile(), self._panel(), self._sum(), self._chunk(), *self._turns())

    # --- blocks and types ---------------------------------------------------------------

    def _field(self, name: str) -> str:
        by_type = self.into is not Space.SHARED
        slot = ChunksSlot(self.outer.rows, by_type, most_chunks(self.size), name)
        return self.args.chunks(slot)

    def _turns(self) -> tuple[Function, Function]:
        """The sums of a block's chunks, and then of all chunks of a type."""
        args, block_ptr, group_ptr = self.args, self._field("block_ptr"), self._field("group_ptr")
        whole = f"{args.buffer(self.outer.out)} + int64_t({self._field('group_etype')}[g])"
        term = f"{args.terms()} + int64_t(term)"
        begins = "term >= 0" if self.outer.accumulate else "true"
        run = (
            f"{self.name}_chunk(c, {self._field('rows')} + {group_ptr}[g], count, total, {begins})"
        )
        chunk: tuple[Statement, ...] = (
            Declare("const int32_t", "term", f"{self._field('terms')}[g]"),
            Declare("const int32_t", "count", f"{group_ptr}[g + 1] - {group_ptr}[g]"),
            Declare("float*", "total", f"term < 0 ? {whole} * {self.size} : {term} * {self.size}"),
            Do(run),
        )
        bounds = f"{block_ptr}[block]", f"{block_ptr}[block + 1]"
        return (
            Function(
                describe_outer(self.outer),
                f"NOINLINE void {self.name}",
                ("const Context& c", "int64_t block"),
                (Declare("FlushDenormals", "flush"), For("int32_t", "g", *bounds, chunk)),
            ),
            self._end(),
        )

    def _end(self) -> Function:
        size, args = self.size, self.args
        pointer = self._field("type_ptr")
        old = "out[i + j]" if self.outer.accumulate else "0.0"
        add = For("int", "j", "0", "width", (Assign("sum[j]", "term[i + j]", "+="),))
        term = f"{args.terms()} + int64_t({self._field('terms')}[g]) * {size}"
        stripe: tuple[Statement, ...] = (
            Declare("double", f"sum[{_STRIPE}]"),
            Declare("const int", "width", f"minimum({size} - i, {_STRIPE})"),
            For("int", "j", "0", "width", (Assign("sum[j]", old),)),
            For("int32_t", "g", "first", "stop", (Declare("const float*", "term", term), add)),
            For("int", "j", "0", "width", (Assign("out[i + j]", "float(sum[j])"),)),
        )
        body: tuple[Statement, ...] = (
            Declare("const int32_t", "first", f"{pointer}[type]"),
            Declare("const int32_t", "stop", f"{pointer}[type + 1]"),
            If("stop - first == 1", (Do("return"),)),
            Declare("float*", "out", f"{args.buffer(self.outer.out)} + type * {size}"),
            For("int", "i", "0", f"{size}", stripe, step=f"{_STRIPE}"),
        )
        return Function(
            "The sum of a type's terms; nothing where it has one chunk.",
            f"NOINLINE void {self.name}_end",
            ("const Context& c", "int64_t type"),
            body,
        )

    # --- a chunk ------------------------------------------------------------------------

    def _chunk(self) -> Function:
        """Long sums in parts, as the prelude's `in_parts`."""
        size, keep = self.size, "static thread_local " if 12 * self.size > _MOST_STACK else ""

        def each(target: str, value: str, op: str = "=") -> For:
            return For("int", "i", "0", f"{size}", (Assign(target, value, op),))

        part: tuple[Statement, ...] = (
            Declare("const int32_t", "height", "minimum(count - from, part_rows)"),
            Do(f"{self.name}_sum(c, rows + from, height, part, true)"),
            each("whole[i]", "part[i]", "+="),
        )
        body: tuple[Statement, ...] = (
            If(
                "count <= part_rows",
                (Do(f"return {self.name}_sum(c, rows, count, total, begins)"),),
            ),
            Declare(f"alignas(64) {keep}float", f"part[{size}]"),
            Declare(f"alignas(64) {keep}double", f"whole[{size}]"),
            each("whole[i]", "begins ? 0.0 : total[i]"),
            For("int32_t", "from", "0", "count", part, step="part_rows"),
            each("total[i]", "float(whole[i])"),
        )
        return Function(
            f"{self.name}: adds a chunk's rows to a sum, or begins it with them",
            f"NOINLINE void {self.name}_chunk",
            (*_CHUNK_PARAMETERS, "bool begins"),
            body,
        )

    def _sum(self) -> Function:
        zero = For("int", "i", "0", f"{self.size}", (Assign("total[i]", "0.0f"),))
        panel: tuple[Statement, ...] = (
            Declare("const int32_t", "height", f"minimum(count - i, {self.panel})"),
            Do(
                f"{self.name}_panel(c, rows + i, height, count - i - height, total, "
                "begins && i == 0)"
            ),
            Assign("i", "height", "+="),
        )
        body: tuple[Statement, ...] = (
            If("count == 0 && begins", (zero,)),
            Declare("int32_t", "i", "0"),
            While("i < count", panel),
        )
        return Function(
            f"{self.name}: the same, of no more rows than float32 keeps the digits of",
            f"NOINLINE void {self.name}_sum",
            (*_CHUNK_PARAMETERS, "bool begins"),
            body,
        )

    # --- a panel ------------------------------------------------------------------------

    def _panel(self) -> Function:
        outer, panel = self.outer, self.panel
        arrays: list[Statement] = []
        loop: list[Statement] = []
        for side, operand in (("x", self.x), ("y", self.y)):
            arrays.append(Declare("const float*", f"{side}[{panel}]"))
            if operand is None:
                ones = ", ".join(["1.0f"] * outer.heads)
                arrays.append(Declare("static const float", "ones[]", f"{{{ones}}}"))
                loop.append(Assign("x[m]", "ones"))
                continue
            width = operand.factor.heads * operand.factor.k
            if isinstance(operand.factor.x, SegmentSum):
                arrays.append(self._array(f"{side}_sums", width))
                loop.append(Assign(f"{side}[m]", f"{operand.name}_sum(c, rows[m], {side}_sums[m])"))
                continue
            loop.append(Assign(f"{side}[m]", operand.pointer("rows[m]")))
            if isinstance(operand.factor.x, Gather) and self.schedule.prefetch:
                ask = f"prefetch_row<{width}>({operand.pointer(f'rows[m + {panel}]')})"
                loop.append(If("m < left", (Do(ask),)))
        if outer.scale is not None:
            arrays.append(self._array("scaled", outer.heads * outer.n))
            loop += self._scaled(outer.scale)
        return Function(
            f"{self.name}: adds up to {panel} rows, of which so many are left behind them",
            f"NOINLINE void {self.name}_panel",
            (
                "const Context& c",
                "const int32_t* rows",
                "int32_t height",
                "int32_t left",
                "float* total",
                "bool begins",
            ),
            (*arrays, For("int", "m", "0", "height", tuple(loop)), *self._tiles()),
        )

    def _array(self, name: str, width: int) -> Declare:
        keep = "static thread_local " if 4 * self.panel * width > _MOST_STACK else ""
        return Declare(f"alignas(64) {keep}float", f"{name}[{self.panel}][{width}]")

    def _scaled(self, scale: str) -> list[Statement]:
        """The right operand's row times its factor, or the factors of its parts."""
        outer, row = self.outer, own_row(self.args, self.outer.rows, "rows[m]")
        parts = self.launch.type_of(scale).width
        source = f"{self.args.buffer(scale)} + int64_t({row}) * {parts}"
        width = outer.heads * outer.n // parts
        multiply = tuple(
            Do(
                f"store<{piece.type}>({at('to', piece.offset)}, factor[part] * "
                f"load<{piece.type}>({at('from', piece.offset)}))"
            )
            for piece in cut(width, self.schedule.lanes)
        )
        body: tuple[Statement, ...] = (
            Declare("const float*", "from", f"y[m] + part * {width}"),
            Declare("float*", "to", f"scaled[m] + part * {width}"),
            *multiply,
        )
        return [
            Declare("const float*", "factor", source),
            For("int", "part", "0", f"{parts}", body),
            Assign("y[m]", "scaled[m]"),
        ]

    def _tiles(self) -> list[Statement]:
        """The calls that take a panel through all register tiles."""
        outer, height = self.outer, self.height
        full = outer.k // height * height

        def call(rows: int, k: str) -> Do:
            head = f"h * {outer.k}" if outer.heads > 1 else ""
            place = sum_text(head, k) or "0"
            right = f"h * {outer.n}" if outer.heads > 1 else "0"
            total = f"total + ({place}) * {outer.n}"
            tile = f"{self.name}_tile<{rows}>"
            return Do(f"{tile}(x, y, {place}, {right}, height, {total}, begins)")

        calls: list[Statement] = [
            For("int", "k", "0", f"{full}", (call(height, "k"),), step=f"{height}")
        ]
        if full < outer.k:
            calls.append(call(outer.k - full, str(full)))
        if outer.heads == 1:
            return calls
        return [For("int", "h", "0", f"{outer.heads}", tuple(calls))]

    # --- a tile -------------------------------------------------------------------------

    def _tile(self) -> Function:
        columns, body = self.columns, list[Statement]()
        if columns.tile:
            product = tuple(self._product(columns.pieces, "column"))
            step = f"{columns.tile}"
            body.append(For("int", "column", "0", f"{columns.stop}", product, step=step))
        body += (Scope(tuple(self._product(pieces, ""))) for pieces in columns.tails)
        return Function(
            f"{self.name}: adds rows to M rows of a sum, from x_at and y_at of the operands on",
            f"static inline void {self.name}_tile",
            (
                "const float* const* x",
                "const float* const* y",
                "int x_at",
                "int y_at",
                "int rows",
                "float* total",
                "bool begins",
            ),
            tuple(body),
            template="int M",
        )

    def _product(self, pieces: tuple[Piece, ...], column: str) -> list[Statement]:
        """One register tile: M rows and the columns of the pieces, of which all are read first."""
        out = sum_text("total", f"m * {self.outer.n}", column)
        begin = [
            Assign(
                f"acc_{p.offset}[m]",
                f"begins ? {p.type}{{}} : load<{p.type}>({at(out, p.offset)})",
            )
            for p in pieces
        ]
        loads: list[Statement] = [
            Declare("const float*", "x_row", "x[row] + x_at"),
            Declare("const float*", "y_row", sum_text("y[row] + y_at", column)),
        ]
        loads += (
            Declare(f"const {p.type}", f"y_{p.offset}", f"load<{p.type}>({at('y_row', p.offset)})")
            for p in pieces
        )
        add = each_row(
            Declare("const float", "x_k", "x_row[m]"),
            *(Assign(f"acc_{p.offset}[m]", f"x_k * y_{p.offset}", "+=") for p in pieces),
        )
        return [
            *(Declare(p.type, f"acc_{p.offset}[M]") for p in pieces),
            each_row(*begin),
            For("int", "row", "0", "rows", (*loads, add)),
            each_row(*(Do(f"store({at(out, p.offset)}, acc_{p.offset}[m])") for p in pieces)),
        ]


_CHUNK_PARAMETERS = (
    "const Context& c",
    "const int32_t* rows",
    "int32_t count",
    "float* total",
)
