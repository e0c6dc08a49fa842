"""Lowers a Gemm: register tiles of rows x columns, one type of rows at a time."""

from __future__ import annotations

from dataclasses import dataclass

from hetune.variants.backends.cpp.abi import Arguments
from hetune.variants.backends.cpp.pieces import Piece, at, cover, cut
from hetune.variants.backends.cpp.rows import block_range, node_of, own_row
from hetune.variants.backends.cpp.target import (
    Assign,
    Comment,
    Do,
    For,
    Function,
    If,
    Let,
    Scope,
    Statement,
    Switch,
    While,
)
from hetune.variants.errors import KernelError
from hetune.variants.kernel.nodes import (
    Direct,
    Gather,
    Gemm,
    Launch,
    Rows,
    Schedule,
    SegmentSum,
)
from hetune.variants.program.nodes import End, Space

_MOST_ROWS = 12
"""Rows of the tallest register tile: each holds a pointer in a general register."""

_ACCUMULATORS = 16
"""Vectors that narrow tiles are grown to: enough to hide the latency of a multiply-add."""

_SHORT_ROWS = 6
"""Every number of rows up to this one has a tile of its own."""

_SUM_VECTORS = 16
"""Vectors of a segment's sum held in registers at a time."""

_PREFETCHED_WIDTH = 16
"""Rows narrower than a cache line are left to the hardware."""

_DOT_WIDTH = 8
_DOT_DEPTH = 16
"""Outputs up to this width of products at least that deep are vectorised along k."""


@dataclass(frozen=True, slots=True)
class _Tiling:
    """How a product is cut into register tiles."""

    rows: int
    column_tile: int
    """Columns of the tiles that a loop walks; 0 if there is no such loop."""
    column_stop: int
    pieces: tuple[Piece, ...]
    """Pieces of a tile of the loop."""
    tails: tuple[tuple[Piece, ...], ...]
    """Tiles behind the loop."""

    @property
    def heights(self) -> tuple[int, ...]:
        """Numbers of rows for which code is made, tallest first."""
        short = range(min(self.rows, _SHORT_ROWS), 0, -1)
        return tuple(sorted({self.rows, *short}, reverse=True))


def _tiling(gemm: Gemm, schedule: Schedule) -> _Tiling:
    n, pieces = gemm.n, cover(gemm.n, schedule.lanes)
    wide = max(1, schedule.col_vectors)
    if gemm.accumulate and len(pieces) > 1 and (wide == 1 or len(pieces) % wide == 1):
        # The last piece stands in a tile of its own: it must not add where another one has added.
        start = pieces[-2].offset + pieces[-2].lanes
        pieces = (*pieces[:-1], *cut(n - start, schedule.lanes, start))
    tiles = [pieces[i : i + wide] for i in range(0, len(pieces), wide)]
    columns = wide * schedule.lanes
    full = sum(1 for i, _ in enumerate(tiles) if (i + 1) * columns <= n)
    vectors = min(len(pieces), wide)
    rows = max(schedule.row_tile, min(_MOST_ROWS, _ACCUMULATORS // vectors))
    if full < 2:
        return _Tiling(rows, 0, 0, (), tuple(tiles))
    return _Tiling(rows, columns, full * columns, tiles[0], tuple(tiles[full:]))


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
        self.tiling = _tiling(gemm, schedule)
        self.by_dot = gemm.n <= _DOT_WIDTH and gemm.k >= _DOT_DEPTH
        self.by_type = launch.type_of(gemm.w).space
        self._check()

    def _check(self) -> None:
        gemm, launch = self.gemm, self.launch
        where = f"in the Gemm into {gemm.out!r}"
        if launch.type_of(gemm.w).width != gemm.heads * gemm.k * gemm.n:
            raise KernelError(f"{where} the weight {gemm.w!r} is not (heads, k, n) wide")
        if launch.type_of(gemm.out).width != gemm.heads * gemm.n:
            raise KernelError(f"{where} the output is not heads * n wide")
        width = launch.type_of(gemm.x.buffer).width
        if width != gemm.heads * gemm.k and not (self._weights_per_head and width == gemm.k):
            raise KernelError(f"{where} the operand {gemm.x.buffer!r} is not heads * k wide")
        if isinstance(gemm.x, SegmentSum) and gemm.rows.space is not Space.DST_PAIR:
            raise KernelError(f"{where} a segment sum needs dst_pair rows")
        if gemm.scatter and gemm.rows.space not in (Space.DST_PAIR, Space.EDGE):
            raise KernelError(f"{where} only edges and dst_pairs scatter to their destination")
        if gemm.scatter and (gemm.bias or not gemm.accumulate):
            raise KernelError(f"{where} scattered rows must accumulate and have no bias")

    @property
    def _weights_per_head(self) -> bool:
        x = self.gemm.x
        if not isinstance(x, SegmentSum) or x.weight is None:
            return False
        return self.launch.type_of(x.weight).width == self.gemm.heads

    @property
    def _contiguous(self) -> bool:
        """Whether a block's rows are consecutive nodes that share one weight."""
        gemm = self.gemm
        everywhere = gemm.only is End.NONE
        return gemm.rows.space is Space.NODE and self.by_type is Space.SHARED and everywhere

    def functions(self) -> tuple[Function, ...]:
        """Functions in the order of their definition; the last one runs a block."""
        summing = (self._segment_sum(),) if isinstance(self.gemm.x, SegmentSum) else ()
        return (*summing, self._tile(), self._block())

    # --- a block ------------------------------------------------------------------------

    def _block(self) -> Function:
        gemm, args = self.gemm, self.args
        body: list[Statement] = []
        if self._contiguous:
            first, stop = block_range(args, gemm.rows, True)
            body += [Let("const float*", "w", args.buffer(gemm.w)), *self._row_loop(first, stop)]
        else:
            blocked = self.node_blocked

            def field(name: str) -> str:
                return args.groups(gemm.rows, blocked, name, gemm.only)

            block_ptr, group_ptr = field("block_ptr"), field("group_ptr")
            size = gemm.heads * gemm.k * gemm.n
            weight = args.buffer(gemm.w)
            if self.by_type is not Space.SHARED:
                weight += f" + int64_t({field('group_etype')}[g]) * {size}"
            inner: list[Statement] = [Let("const float*", "w", weight)]
            if self.by_dot:
                inner += self._transpose()
            inner += self._row_loop(f"{group_ptr}[g]", f"{group_ptr}[g + 1]")
            body += [
                Let("const int32_t*", "rows", field("rows")),
                Let("const int32_t", "last_group", f"{block_ptr}[block + 1]"),
                For("int32_t", "g", f"{block_ptr}[block]", "last_group", tuple(inner)),
            ]
        if self._contiguous and self.by_dot:
            body[1:1] = self._transpose()
        if gemm.fill:
            body += self._fill()
        return Function(
            _describe(gemm), f"NOINLINE void {self.name}", _BLOCK_PARAMETERS, tuple(body)
        )

    def _fill(self) -> list[Statement]:
        """The output rows of nodes that have no edge: what a zero operand gives."""
        gemm, args = self.gemm, self.args
        first, stop = block_range(args, gemm.rows, True)
        width = gemm.heads * gemm.n
        bias = "0"
        if gemm.bias is not None:
            row = ""
            if self.launch.type_of(gemm.bias).space is Space.NTYPE:
                row = f" + int64_t({args.node_types()}[n]) * {width}"
            bias = f"({args.buffer(gemm.bias)}{row})[j]"
        ends = args.index("", "indptr" if gemm.only is End.DST else "csc_indptr")
        fill = Assign(f"({args.buffer(gemm.out)} + int64_t(n) * {width})[j]", bias)
        without = If(f"{ends}[n] == {ends}[n + 1]", (For("int", "j", "0", f"{width}", (fill,)),))
        return [
            Comment("nodes without an edge"),
            For("int32_t", "n", first, stop, (without,)),
        ]

    def _transpose(self) -> list[Statement]:
        heads, k, n = self.gemm.heads, self.gemm.k, self.gemm.n
        if n == 1:
            return [Let("const float*", "columns", "w")]
        return [
            Comment("columns of w, each contiguous"),
            Let("alignas(64) float", f"columns[{heads * k * n}]"),
            Do(f"transpose<{heads}, {k}, {n}>(w, columns)"),
        ]

    def _row_loop(self, first: str, stop: str) -> list[Statement]:
        heights = self.tiling.heights
        tallest = heights[0]
        row = "i" if self._contiguous else "rows + i"
        weight = "columns" if self.by_dot else "w"
        calls = tuple(
            (
                f"case {height}" if height > 1 else "default",
                Do(f"{self.name}_tile<{height}>(c, {row}, {weight})"),
            )
            for height in heights
        )
        # Heights between the short ones and the tallest have no code of their own.
        if tallest > _SHORT_ROWS:
            shorter = f"minimum(stop - i, {_SHORT_ROWS})"
            height = f"stop - i < {tallest} ? {shorter} : {tallest}"
        else:
            height = f"minimum(stop - i, {tallest})"
        body: list[Statement] = [Let("const int32_t", "height", height)]
        body += self._prefetch(tallest)
        body += [Switch("height", calls), Assign("i", "height", "+=")]
        return [
            Let("const int32_t", "stop", stop),
            Let("int32_t", "i", first),
            While("i < stop", tuple(body)),
        ]

    @property
    def _rows(self) -> str:
        return self.args.groups(self.gemm.rows, self.node_blocked, "rows", self.gemm.only)

    def _prefetch(self, tallest: int) -> list[Statement]:
        """Ask for the operand rows of the next tile while this one is computed."""
        gemm = self.gemm
        if isinstance(gemm.x, Direct) or not self.schedule.prefetch:
            return []
        width = self.launch.type_of(gemm.x.buffer).width
        ask: tuple[Statement, ...]
        if isinstance(gemm.x, Gather):
            pointer = self._operand_pointer("rows[next]")
            ask = (Do(f"prefetch_row<{width}>({pointer})"),)
        else:
            edge = f"{self.args.index(gemm.rows.group, 'dst_pair_indptr')}[rows[next]]"
            pointer = self._edge_pointer(gemm.x, "edge")
            ask = (
                Let("const int32_t", "edge", edge),
                Do(f"prefetch_row<{width}>({pointer})"),
            )
        return [
            Let("const int32_t", "next_stop", f"minimum(i + height + {tallest}, stop)"),
            For("int32_t", "next", "i + height", "next_stop", ask),
        ]

    # --- a tile -------------------------------------------------------------------------

    def _tile(self) -> Function:
        body = self._setup()
        body += self._dot_products() if self.by_dot else self._products()
        row = "int32_t first" if self._contiguous else "const int32_t* rows"
        return Function(
            f"{self.name}: M rows at a time",
            f"static inline void {self.name}_tile",
            ("const Context& c", row, "const float* w"),
            tuple(body),
            template="int M",
        )

    @property
    def _row(self) -> str:
        return "first + m" if self._contiguous else "rows[m]"

    def _setup(self) -> list[Statement]:
        """Pointers to the operand's rows."""
        gemm = self.gemm
        pointers = Let("const float*", "x[M]")
        if not isinstance(gemm.x, SegmentSum):
            pointer = Assign("x[m]", self._operand_pointer(self._row))
            return [pointers, _each_row(pointer)]
        width = gemm.heads * gemm.k
        total = (
            Let("alignas(64) float", f"sums[M][{width}]"),
            Let("const float*", "summed[M]"),
            For(
                "int",
                "m",
                "0",
                "M",
                (Assign("summed[m]", f"{self.name}_sum(c, {self._row}, sums[m])"),),
            ),
            pointers,
            _each_row(Assign("x[m]", "summed[m]")),
        )
        return list(total)

    def _operand_pointer(self, row: str) -> str:
        gemm = self.gemm
        if isinstance(gemm.x, Gather):
            index = node_of(self.args, gemm.rows, row, gemm.x.end)
        else:
            index = own_row(self.args, gemm.rows, row)
        width = self.launch.type_of(gemm.x.buffer).width
        return f"{self.args.buffer(gemm.x.buffer)} + int64_t({index}) * {width}"

    def _edge_pointer(self, x: SegmentSum, edge: str) -> str:
        """The row that an edge adds to its segment."""
        edges = Rows(Space.EDGE, self.gemm.rows.group)
        if self.launch.type_of(x.buffer).space is Space.EDGE:
            index = own_row(self.args, edges, edge)
        else:
            index = node_of(self.args, edges, edge, x.end)
        width = self.launch.type_of(x.buffer).width
        return f"{self.args.buffer(x.buffer)} + int64_t({index}) * {width}"

    def _products(self) -> list[Statement]:
        gemm, tiling = self.gemm, self.tiling
        per_head: list[Statement] = []
        if tiling.column_tile:
            per_head.append(
                For(
                    "int",
                    "column",
                    "0",
                    f"{tiling.column_stop}",
                    tuple(self._product(tiling.pieces, "column")),
                    step=f"{tiling.column_tile}",
                )
            )
        for pieces in tiling.tails:
            product = self._product(pieces, "")
            alone = len(tiling.tails) == 1 and not tiling.column_tile
            per_head += product if alone else [_scope(product)]
        if gemm.heads == 1:
            return per_head
        return [For("int", "h", "0", f"{gemm.heads}", tuple(per_head))]

    def _product(self, pieces: tuple[Piece, ...], column: str) -> list[Statement]:
        """One register tile: all k of M rows and the columns of the pieces."""
        gemm = self.gemm
        k_row = _sum_text(
            "w",
            f"(h * {gemm.k} + k) * {gemm.n}" if gemm.heads > 1 else f"k * {gemm.n}",
            column,
        )
        operand = f"x[m][h * {gemm.k} + k]" if gemm.heads > 1 else "x[m][k]"
        declare: list[Statement] = [Let(p.type, f"acc_{p.offset}[M]") for p in pieces]
        zero = [Assign(f"acc_{p.offset}[m]", f"{p.type}{{}}") for p in pieces]
        loads: list[Statement] = [Let("const float*", "w_k", k_row)]
        loads += [
            Let(f"const {p.type}", f"w_{p.offset}", f"load<{p.type}>({at('w_k', p.offset)})")
            for p in pieces
        ]
        multiply = [Let("const float", "x_k", operand)]
        multiply_all: list[Statement] = [
            *multiply,
            *(Assign(f"acc_{p.offset}[m]", f"x_k * w_{p.offset}", "+=") for p in pieces),
        ]
        loop = For("int", "k", "0", f"{gemm.k}", (*loads, _each_row(*multiply_all)))
        return [*declare, _each_row(*zero), loop, _each_row(*self._finish(pieces, column))]

    def _finish(self, pieces: tuple[Piece, ...], column: str) -> list[Statement]:
        """Scale, bias and write one row of a tile; overlapping pieces read before they write."""
        gemm = self.gemm
        head = f"h * {gemm.n}" if gemm.heads > 1 else ""
        out = f"{self.args.buffer(gemm.out)} + int64_t({self._out_row}) * {gemm.heads * gemm.n}"
        body: list[Statement] = [Let("float*", "out", _sum_text(out, head, column))]
        if gemm.scale:
            body.append(Let("const float", "scale", self._scale))
        if gemm.bias:
            body.append(Let("const float*", "bias", _sum_text(self._bias, head, column)))
        for p in pieces:
            value = f"acc_{p.offset}[m]"
            if gemm.scale:
                value = f"scale * {value}"
            if gemm.bias:
                value += f" + load<{p.type}>({at('bias', p.offset)})"
            if gemm.accumulate:
                value += f" + load<{p.type}>({at('out', p.offset)})"
            body.append(Let(f"const {p.type}", f"out_{p.offset}", value))
        body += [Do(f"store({at('out', p.offset)}, out_{p.offset})") for p in pieces]
        return body

    def _dot_products(self) -> list[Statement]:
        """Few columns: products along k, and one horizontal sum per output element."""
        gemm = self.gemm
        head_x = f"h * {gemm.k}" if gemm.heads > 1 else ""
        head_w = f"(h * {gemm.n} + j) * {gemm.k}" if gemm.heads > 1 else f"j * {gemm.k}"
        pieces = cut(gemm.k, self.schedule.lanes)
        widest = pieces[0]
        whole = [p for p in pieces if p.lanes == widest.lanes]
        rest = pieces[len(whole) :]
        left, right = _sum_text("x[m]", head_x), _sum_text("w", head_w)
        body: list[Statement] = [
            Let("const float*", "x_m", left),
            Let("const float*", "w_j", right),
            Let(widest.type, "products", f"{widest.type}{{}}"),
            For(
                "int",
                "k",
                "0",
                f"{len(whole) * widest.lanes}",
                (
                    Assign(
                        "products",
                        f"load<{widest.type}>(x_m + k) * load<{widest.type}>(w_j + k)",
                        "+=",
                    ),
                ),
                step=f"{widest.lanes}",
                unroll=8,
            ),
            Let("float", "total", "hsum(products)"),
        ]
        body += [
            Assign(
                "total",
                f"hsum(load<{p.type}>(x_m + {p.offset}) * load<{p.type}>(w_j + {p.offset}))",
                "+=",
            )
            for p in rest
        ]
        head = f"h * {gemm.n}" if gemm.heads > 1 else ""
        out = f"{self.args.buffer(gemm.out)} + int64_t({self._out_row}) * {gemm.heads * gemm.n}"
        column = _sum_text(head, "j")
        if gemm.scale:
            body.append(Assign("total", self._scale, "*="))
        if gemm.bias:
            body.append(Assign("total", f"({self._bias})[{column}]", "+="))
        body.append(Assign(f"({out})[{column}]", "total", "+=" if gemm.accumulate else "="))
        loop: Statement = For("int", "j", "0", f"{gemm.n}", tuple(body))
        if gemm.heads > 1:
            loop = For("int", "h", "0", f"{gemm.heads}", (loop,))
        return [For("int", "m", "0", "M", (loop,))]

    @property
    def _out_row(self) -> str:
        if self.gemm.scatter:
            return node_of(self.args, self.gemm.rows, self._row, End.DST)
        return own_row(self.args, self.gemm.rows, self._row)

    @property
    def _scale(self) -> str:
        gemm = self.gemm
        assert gemm.scale is not None
        row = own_row(self.args, gemm.rows, self._row)
        buffer = self.args.buffer(gemm.scale)
        if self.launch.type_of(gemm.scale).width == 1:
            return f"{buffer}[{row}]"
        return f"{buffer}[int64_t({row}) * {gemm.heads} + h]"

    @property
    def _bias(self) -> str:
        gemm = self.gemm
        assert gemm.bias is not None
        buffer = self.args.buffer(gemm.bias)
        if self.launch.type_of(gemm.bias).space is Space.SHARED:
            return buffer
        return f"{buffer} + int64_t({self.args.node_types()}[{self._row}]) * {gemm.heads * gemm.n}"

    # --- sums over segments -------------------------------------------------------------

    def _segment_sum(self) -> Function:
        gemm, args = self.gemm, self.args
        x = gemm.x
        assert isinstance(x, SegmentSum)
        pointer = args.index(gemm.rows.group, "dst_pair_indptr")
        body: list[Statement] = [
            Let("const int32_t", "begin", f"{pointer}[pair]"),
            Let("const int32_t", "end", f"{pointer}[pair + 1]"),
        ]
        if x.weight is None:
            one = f"return {self._edge_pointer(x, 'begin')}"
            body.append(If("end - begin == 1", (Do(one),)))
        body += [_scope(self._sum_tile(x, tile)) for tile in self._sum_tiles()]
        body.append(Do("return sum"))
        return Function(
            f"{self.name}: the operand's row of a pair, in sum or where it lies already",
            f"static inline const float* {self.name}_sum",
            ("const Context& c", "int32_t pair", "float* sum"),
            tuple(body),
        )

    def _sum_tiles(self) -> list[list[tuple[int, Piece]]]:
        """Pieces of the operand with their heads, as many at a time as registers hold."""
        gemm, lanes = self.gemm, self.schedule.lanes
        if self._weights_per_head:
            pieces = [(h, p) for h in range(gemm.heads) for p in cut(gemm.k, lanes)]
        else:
            pieces = [(0, p) for p in cut(gemm.heads * gemm.k, lanes)]
        return [pieces[i : i + _SUM_VECTORS] for i in range(0, len(pieces), _SUM_VECTORS)]

    def _sum_tile(self, x: SegmentSum, tile: list[tuple[int, Piece]]) -> list[Statement]:
        gemm, args = self.gemm, self.args
        per_head = self._weights_per_head
        shares_rows = per_head and self.launch.type_of(x.buffer).width == gemm.k

        def name(h: int, p: Piece) -> str:
            return f"sum_{h * gemm.k + p.offset}"

        loop: list[Statement] = []
        if self.schedule.prefetch and gemm.k >= _PREFETCHED_WIDTH:
            width = self.launch.type_of(x.buffer).width
            loop += [
                Let("const int32_t", "ahead", f"minimum(e + {self.schedule.prefetch}, end - 1)"),
                Do(f"prefetch_row<{width}>({self._edge_pointer(x, 'ahead')})"),
            ]
        loop.append(Let("const float*", "in", self._edge_pointer(x, "e")))
        if x.weight is not None:
            edges = Rows(Space.EDGE, gemm.rows.group)
            row = own_row(args, edges, "e")
            heads = gemm.heads if per_head else 1
            for h in sorted({h for h, _ in tile}):
                place = f"int64_t({row}) * {heads} + {h}" if heads > 1 else row
                loop.append(Let("const float", f"a_{h}", f"{args.buffer(x.weight)}[{place}]"))
        for h, p in tile:
            offset = p.offset if shares_rows else h * gemm.k + p.offset
            term = f"load<{p.type}>({at('in', offset)})"
            if x.weight is not None:
                term = f"a_{h} * {term}"
            loop.append(Assign(name(h, p), term, "+="))
        return [
            *(Let(p.type, name(h, p), f"{p.type}{{}}") for h, p in tile),
            For("int32_t", "e", "begin", "end", tuple(loop), unroll=self.schedule.unroll),
            *(Do(f"store({at('sum', h * gemm.k + p.offset)}, {name(h, p)})") for h, p in tile),
        ]


_BLOCK_PARAMETERS = ("const Context& c", "int64_t block")


def _each_row(*body: Statement) -> For:
    return For("int", "m", "0", "M", tuple(body), unroll=16)


def _scope(body: list[Statement]) -> Statement:
    return Scope(tuple(body))


def _sum_text(*terms: str) -> str:
    return " + ".join(term for term in terms if term)


def _describe(gemm: Gemm) -> str:
    match gemm.x:
        case Direct(buffer):
            x = buffer
        case Gather(buffer, end):
            x = f"{buffer}[{end}]"
        case SegmentSum(buffer, _, weight):
            x = f"sum({f'{weight} * ' if weight else ''}{buffer})"
    scale = f"{gemm.scale} * " if gemm.scale else ""
    bias = f" + {gemm.bias}" if gemm.bias else ""
    out = f"{gemm.out}[dst]" if gemm.scatter else gemm.out
    sign = "+=" if gemm.accumulate else "="
    group = f" of group {gemm.rows.group!r}" if gemm.rows.group else ""
    return f"{out} {sign} {scale}{x} @ {gemm.w}{bias}, for every {gemm.rows.space}{group}"
