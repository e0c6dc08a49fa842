"""Lowers a Gemm: register tiles of rows x columns, one type of rows at a time."""

from __future__ import annotations

from dataclasses import replace

from hetune.variants.backends.cpp.abi import Arguments
from hetune.variants.backends.cpp.dot_products import dot_products
from hetune.variants.backends.cpp.filled_rows import filled_rows
from hetune.variants.backends.cpp.operand import LINE, Operand, each_row
from hetune.variants.backends.cpp.pieces import Piece, at, narrow_stores, pointer_type
from hetune.variants.backends.cpp.rows import block_range
from hetune.variants.backends.cpp.tail import Tail
from hetune.variants.backends.cpp.target import (
    Assign,
    Comment,
    Declare,
    Do,
    For,
    Function,
    If,
    Scope,
    Statement,
    Switch,
    While,
)
from hetune.variants.backends.cpp.tile_row import TileRow, sum_text
from hetune.variants.backends.cpp.tiling import SHORT_ROWS, ColumnTiling, tilings
from hetune.variants.backends.describe import describe_gemm
from hetune.variants.kernel.nodes import (
    Element,
    Gemm,
    Launch,
    Schedule,
    SegmentSum,
)
from hetune.variants.program.nodes import End, Space

_DOT_WIDTH = 8
_DOT_DEPTH = 16
"""Outputs up to this width of products at least that deep are vectorised along k."""

_MOST_STACK = 3 << 18
"""Bytes that arrays may have on the stack of a thread, which may have no more than a few MiB."""


class GemmLowering:
    """Lowers one Gemm of a launch into the functions that run a block of it."""

    def __init__(
        self,
        gemm: Gemm,
        name: str,
        launch: Launch,
        schedule: Schedule,
        arguments: Arguments,
        node_blocked: bool,
    ) -> None:
        self.gemm = gemm
        self.name = name
        self.launch = launch
        self.schedule = schedule
        self.args = arguments
        self.node_blocked = node_blocked
        self.tilings = tilings(gemm, schedule)
        self.operand = Operand(gemm.factor, name, launch, schedule, arguments)
        self.by_dot = gemm.n <= _DOT_WIDTH and gemm.k >= _DOT_DEPTH
        self.asks_by_lines = self.operand.comes_by_lines and not self.by_dot
        self.by_type = launch.type_of(gemm.w).space
        self.row = TileRow(gemm, launch, arguments, self._row)
        self.tail = Tail(gemm, name, launch, schedule, arguments) if gemm.tail else None

    @property
    def _contiguous(self) -> bool:
        """Whether a block's rows are consecutive nodes that share one weight."""
        gemm = self.gemm
        everywhere = gemm.only is End.NONE
        return gemm.rows.space is Space.NODE and self.by_type is Space.SHARED and everywhere

    @property
    def _array(self) -> str:
        """What arrays begin with: those of very wide rows are no part of the stack."""
        gemm = self.gemm
        per_row = (gemm.k if self.operand.is_computed else 0) + (gemm.n if self.tail else 0)
        columns = gemm.k * gemm.n if self.by_dot else 0
        # Tiles of all heights may become part of one function.
        size = 4 * gemm.heads * (sum(self.tilings) * per_row + columns)
        return f"alignas(64) {'static thread_local ' if size > _MOST_STACK else ''}float"

    def functions(self) -> tuple[Function, ...]:
        """Functions in the order of their definition; the last one runs a block."""
        summing = (self.operand.segment_sum(),) if isinstance(self.gemm.x, SegmentSum) else ()
        finishing = (self.tail.function(),) if self.tail else ()
        return (*summing, *finishing, *self._tiles(), self._block())

    # --- a block ------------------------------------------------------------------------

    def _block(self) -> Function:
        gemm, args = self.gemm, self.args
        body: list[Statement] = []
        if self._contiguous:
            first, stop = block_range(args, gemm.rows, True)
            body += [
                Declare("const float*", "w", args.buffer(gemm.w)),
                *self._row_loop(first, stop),
            ]
        else:
            blocked = self.node_blocked

            def field(name: str) -> str:
                return args.groups(gemm.rows, blocked, name, gemm.only)

            block_ptr, group_ptr = field("block_ptr"), field("group_ptr")
            size = gemm.heads * gemm.k * gemm.n
            weight = args.buffer(gemm.w)
            if self.by_type is not Space.SHARED:
                weight += f" + int64_t({field('group_etype')}[g]) * {size}"
            inner: list[Statement] = [Declare("const float*", "w", weight)]
            if self.by_dot:
                inner += self._transpose()
            inner += self._row_loop(f"{group_ptr}[g]", f"{group_ptr}[g + 1]")
            body += [
                Declare("const int32_t*", "rows", field("rows")),
                Declare("const int32_t", "last_group", f"{block_ptr}[block + 1]"),
                For("int32_t", "g", f"{block_ptr}[block]", "last_group", tuple(inner)),
            ]
        if self._contiguous and self.by_dot:
            body[1:1] = self._transpose()
        if gemm.fill:
            body += filled_rows(
                gemm, self.tail, launch=self.launch, schedule=self.schedule, args=args
            )
        return Function(
            describe_gemm(gemm), f"NOINLINE void {self.name}", _BLOCK_PARAMETERS, tuple(body)
        )

    def _transpose(self) -> list[Statement]:
        heads, k, n = self.gemm.heads, self.gemm.k, self.gemm.n
        if n == 1:
            return [Declare("const float*", "columns", "w")]
        return [
            Comment("columns of w, each contiguous"),
            Declare(self._array, f"columns[{heads * k * n}]"),
            Do(f"transpose<{heads}, {k}, {n}>(w, columns)"),
        ]

    def _row_loop(self, first: str, stop: str) -> list[Statement]:
        tallest = max(self.tilings)
        row = "i" if self._contiguous else "rows + i"
        weight = "columns" if self.by_dot else "w"
        ahead = ", stop - i - height" if self.asks_by_lines else ""
        calls = tuple(
            (
                f"case {height}" if height > 1 else "default",
                Do(f"{self._tile_name(height)}<{height}>(c, {row}, {weight}{ahead})"),
            )
            for height in self.tilings
        )
        # Heights between the short ones and the tallest have no code of their own.
        if tallest > SHORT_ROWS:
            shorter = f"minimum(stop - i, {SHORT_ROWS})"
            height = f"stop - i < {tallest} ? {shorter} : {tallest}"
        else:
            height = f"minimum(stop - i, {tallest})"
        body: list[Statement] = [Declare("const int32_t", "height", height)]
        if not self.asks_by_lines:
            body += self.operand.prefetch(tallest)
        body += [Switch("height", calls), Assign("i", "height", "+=")]
        return [
            Declare("const int32_t", "stop", stop),
            Declare("int32_t", "i", first),
            While("i < stop", tuple(body)),
        ]

    # --- a tile -------------------------------------------------------------------------

    def _tile_name(self, height: int) -> str:
        columns = self.tilings[height]
        is_usual = self.by_dot or columns == self.tilings[max(self.tilings)]
        return f"{self.name}_tile" if is_usual else f"{self.name}_tile_of_{columns.vectors}"

    def _tiles(self) -> tuple[Function, ...]:
        """A function for each way in which the columns are cut."""
        named = {self._tile_name(height): columns for height, columns in self.tilings.items()}
        return tuple(self._tile(name, columns) for name, columns in named.items())

    def _tile(self, name: str, columns: ColumnTiling) -> Function:
        body = self.operand.setup(self._row, self._array)
        ahead: tuple[str, ...] = ()
        if self.asks_by_lines:
            # Behind the last rows there are these again.
            body += self.operand.next_rows(self._row_at("(m < ahead ? M + m : m)"))
            ahead = ("int32_t ahead",)
        width = self.gemm.heads * self.gemm.n
        if self.tail:
            body.append(Declare(self._array, f"done[M][{width}]"))
        body += (
            dot_products(self.row, self.schedule.lanes) if self.by_dot else self._products(columns)
        )
        if self.tail:
            body.append(For("int", "m", "0", "M", (self.tail.call(self._row, "done[m]"),)))
        row = "int32_t first" if self._contiguous else "const int32_t* rows"
        return Function(
            f"{self.name}: M rows at a time",
            f"static inline void {name}",
            ("const Context& c", row, "const float* w", *ahead),
            tuple(body),
            template="int M",
        )

    @property
    def _row(self) -> str:
        return self._row_at("m")

    def _row_at(self, m: str) -> str:
        return f"first + {m}" if self._contiguous else f"rows[{m}]"

    def _touched(self) -> tuple[tuple[str, bool], ...]:
        """Buffers of whose rows a tile touches as many as it has, and which of them it writes."""
        if self.by_dot or not self.operand.has_lines or self.gemm.n % LINE:
            return ()
        if self.tail:
            return self.tail.touched()
        out = self.launch.buffer(self.gemm.out)
        is_apart = out.scratch or out.element is Element.BFLOAT16
        return () if is_apart else ((self.gemm.out, True),)

    def _products(self, columns: ColumnTiling) -> list[Statement]:
        gemm = self.gemm
        per_head: list[Statement] = []
        if columns.tile:
            per_head.append(
                For(
                    "int",
                    "column",
                    "0",
                    f"{columns.stop}",
                    tuple(self._product(columns.pieces, "column", asks=True)),
                    step=f"{columns.tile}",
                )
            )
        for number, pieces in enumerate(columns.tails):
            is_first = number == 0 and not columns.tile
            product = self._product(pieces, "", asks=is_first)
            alone = len(columns.tails) == 1 and not columns.tile
            per_head += product if alone else [Scope(tuple(product))]
        if gemm.heads == 1:
            return per_head
        return [For("int", "h", "0", f"{gemm.heads}", tuple(per_head))]

    def _product(self, pieces: tuple[Piece, ...], column: str, *, asks: bool) -> list[Statement]:
        """One register tile: all k of M rows and the columns of the pieces.

        Args:
            pieces: Of its columns.
            column: The first of them where a loop walks tiles, else "".
            asks: Whether it is the one that asks for the next rows.
        """
        gemm = self.gemm
        row = _wide(f"(h * {gemm.k} + k)" if gemm.heads > 1 else "k", gemm.heads * gemm.k * gemm.n)
        k_row = sum_text("w", f"{row} * {gemm.n}", column)
        operand = f"x[m][h * {gemm.k} + k]" if gemm.heads > 1 else "x[m][k]"
        declare: list[Statement] = [Declare(p.type, f"acc_{p.offset}[M]") for p in pieces]
        zero = [Assign(f"acc_{p.offset}[m]", f"{p.type}{{}}") for p in pieces]
        loads: list[Statement] = [Declare("const float*", "w_k", k_row)]
        loads += [
            Declare(f"const {p.type}", f"w_{p.offset}", f"load<{p.type}>({at('w_k', p.offset)})")
            for p in pieces
        ]
        multiply = [Declare("const float", "x_k", operand)]
        multiply_all: list[Statement] = [
            *multiply,
            *(Assign(f"acc_{p.offset}[m]", f"x_k * w_{p.offset}", "+=") for p in pieces),
        ]
        loop = For("int", "k", "0", f"{gemm.k}", (*loads, each_row(*multiply_all)))
        requests = self._requests() if asks else ()
        if requests:
            ask: Statement = each_row(*requests)
            if column:
                ask = If(f"{column} == 0", (ask,))
            part = replace(loop, start="part", stop=f"part + {LINE}")
            loop = For("int", "part", "0", f"{gemm.k}", (ask, part), step=f"{LINE}")
        return [*declare, each_row(*zero), loop, each_row(*self._finish(pieces, column))]

    def _requests(self) -> tuple[Statement, ...]:
        """What a tile asks for, for its row m, at each line of the operand."""
        gemm, found = self.gemm, list[Statement]()
        head_k, head_n = (f"h * {gemm.k}", f"h * {gemm.n}") if gemm.heads > 1 else ("", "")
        if self.asks_by_lines:
            found.append(Do(f"__builtin_prefetch({sum_text('next[m]', head_k, 'part')})"))
        for buffer, writes in self._touched():
            for first in range(0, gemm.n, gemm.k):
                line = sum_text(
                    self.row.pointer(buffer), head_n, "part", str(first) if first else ""
                )
                ask: Statement = Do(f"__builtin_prefetch({line}{', 1' if writes else ''})")
                if first + gemm.k > gemm.n:
                    ask = If(f"part < {gemm.n - first}", (ask,))
                found.append(ask)
        return tuple(found)

    def _finish(self, pieces: tuple[Piece, ...], column: str) -> list[Statement]:
        """Scale, bias and write one row of a tile; overlapping pieces read before they write."""
        gemm = self.gemm
        head = f"h * {gemm.n}" if gemm.heads > 1 else ""
        element = self.row.element
        out = self.row.out if element is Element.BFLOAT16 else sum_text(self.row.out, head, column)
        body: list[Statement] = [Declare(pointer_type(element), "out", out)]
        if gemm.scale:
            body.append(Declare("const float", "scale", self.row.scale))
        if gemm.bias:
            body.append(Declare("const float*", "bias", sum_text(self.row.bias, head, column)))
        for p in pieces:
            value = f"acc_{p.offset}[m]"
            if gemm.scale:
                value = f"scale * {value}"
            if gemm.bias:
                value += f" + load<{p.type}>({at('bias', p.offset)})"
            if gemm.accumulate:
                value += f" + load<{p.type}>({at('out', p.offset)})"
            body.append(Declare(f"const {p.type}", f"out_{p.offset}", value))
        if element is Element.BFLOAT16:
            values = [(p, f"out_{p.offset}") for p in pieces]
            tile = sum(p.lanes for p in pieces) if column else 0
            is_aligned = gemm.n % 32 == 0 and tile % 32 == 0
            calls = narrow_stores("out", values, sum_text(head, column), is_aligned=is_aligned)
            return [*body, *(Do(call) for call in calls)]
        body += [Do(f"store({at('out', p.offset)}, out_{p.offset})") for p in pieces]
        return body


_BLOCK_PARAMETERS = ("const Context& c", "int64_t block")


def _wide(number: str, product: int) -> str:
    """A factor of a product that gets as large, in 64 bits where 32 are too few."""
    return number if product < 1 << 31 else f"int64_t({number})"
