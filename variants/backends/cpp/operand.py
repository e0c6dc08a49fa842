"""The rows that a product multiplies: where they lie, or how they are summed up first."""

from __future__ import annotations

from hetune.variants.backends.cpp.abi import Arguments
from hetune.variants.backends.cpp.parts import in_parts
from hetune.variants.backends.cpp.pieces import Piece, at, cut, loaded, pointer_type
from hetune.variants.backends.cpp.rows import node_of, own_row
from hetune.variants.backends.cpp.target import (
    Assign,
    Declare,
    Do,
    For,
    Function,
    If,
    Scope,
    Statement,
)
from hetune.variants.backends.cpp.values import apply
from hetune.variants.kernel.nodes import (
    Direct,
    Element,
    Factor,
    Gather,
    Launch,
    Rows,
    Schedule,
    SegmentSum,
)
from hetune.variants.program.nodes import Space

_SPREAD_LINES = 4
"""Lines of an operand's row from which on a tile asks line by line."""

_SUM_VECTORS = 16
"""Vectors of a segment's sum held in registers at a time."""

LINE = 16
"""Floats of a cache line. Rows narrower than that are left to the hardware."""


class Operand:
    """Lowers an operand of one product."""

    def __init__(
        self, factor: Factor, name: str, launch: Launch, schedule: Schedule, arguments: Arguments
    ) -> None:
        self.factor = factor
        self.name = name
        self.launch = launch
        self.schedule = schedule
        self.args = arguments

    @property
    def weights_per_head(self) -> bool:
        """Whether each head sums its segments with weights of its own."""
        x = self.factor.x
        if not isinstance(x, SegmentSum) or x.weight is None:
            return False
        return self.launch.type_of(x.weight).width == self.factor.heads

    @property
    def has_lines(self) -> bool:
        """Whether a tile goes along its rows line by line, and may ask for some in each."""
        lines, rest = divmod(self.factor.k, LINE)
        return self.schedule.prefetch > 0 and lines >= _SPREAD_LINES and rest == 0

    @property
    def comes_by_lines(self) -> bool:
        """Whether a tile should ask for the next one's rows line by line.

        All at once they would fill the buffers of what the caches wait for.
        """
        x = self.factor.x
        if isinstance(x, SegmentSum) or not self.has_lines or self.is_narrow:
            return False
        return isinstance(x, Gather) or not self.launch.buffer(x.buffer).scratch

    def next_rows(self, row: str) -> list[Statement]:
        """Pointers to the rows of the next tile, of which ``row`` is row m."""
        pointer = self.pointer(row)
        return [Declare("const float*", "next[M]"), each_row(Assign("next[m]", pointer))]

    @property
    def element(self) -> Element:
        """What rows are made of where they lie."""
        return self.launch.buffer(self.factor.x.buffer).element

    @property
    def is_narrow(self) -> bool:
        """Whether rows are widened before they are multiplied."""
        return self.element is not Element.FLOAT32

    @property
    def is_computed(self) -> bool:
        """Whether a tile computes its rows, into an array of its own."""
        x = self.factor.x
        active = isinstance(x, Direct) and x.fn != ""
        return isinstance(x, SegmentSum) or active or self.is_narrow

    def setup(self, row: str, array: str) -> list[Statement]:
        """Pointers to a tile's rows: ``row`` is its row m, ``array`` what arrays begin with."""
        factor = self.factor
        pointers = Declare("const float*", "x[M]")
        width = factor.heads * factor.k
        if self.is_computed and not isinstance(factor.x, SegmentSum):
            return [
                Declare(array, f"active[M][{width}]"),
                For("int", "m", "0", "M", tuple(self._activate(factor.x, row, width))),
                pointers,
                each_row(Assign("x[m]", "active[m]")),
            ]
        if not isinstance(factor.x, SegmentSum):
            pointer = Assign("x[m]", self.pointer(row))
            return [pointers, each_row(pointer)]
        total = (
            Declare(array, f"sums[M][{width}]"),
            Declare("const float*", "summed[M]"),
            For(
                "int",
                "m",
                "0",
                "M",
                (Assign("summed[m]", f"{self.name}_sum(c, {row}, sums[m])"),),
            ),
            pointers,
            each_row(Assign("x[m]", "summed[m]")),
        )
        return list(total)

    def _activate(self, x: Direct | Gather, row: str, width: int) -> list[Statement]:
        """Computes the operand of a row into ``active[m]``."""
        pointers = f"const {pointer_type(self.element)}"
        body: list[Statement] = [Declare(pointers, "raw", self.pointer(row))]
        for piece in cut(width, self.schedule.lanes):
            active = loaded(self.element, piece.type, "raw", piece.offset)
            if isinstance(x, Direct) and x.fn:
                active = apply(x.fn, (active,), x.const)
            body.append(Do(f"store<{piece.type}>({at('active[m]', piece.offset)}, {active})"))
        return body

    def prefetch(self, tallest: int) -> list[Statement]:
        """Ask for the operand rows of the next tile before this one is computed."""
        factor = self.factor
        if isinstance(factor.x, Direct) or not self.schedule.prefetch:
            return []
        width = self.launch.type_of(factor.x.buffer).width
        ask: tuple[Statement, ...]
        if isinstance(factor.x, Gather):
            pointer = self.pointer("rows[next]")
            ask = (Do(f"prefetch_row<{width}>({pointer})"),)
        else:
            edge = f"{self.args.index(factor.rows.group, 'dst_pair_indptr')}[rows[next]]"
            pointer = self._edge_pointer(factor.x, "edge")
            ask = (
                Declare("const int32_t", "edge", edge),
                Do(f"prefetch_row<{width}>({pointer})"),
            )
        return [
            Declare("const int32_t", "next_stop", f"minimum(i + height + {tallest}, stop)"),
            For("int32_t", "next", "i + height", "next_stop", ask),
        ]

    def pointer(self, row: str) -> str:
        """The expression of a pointer to the operand of a row, where it is no sum."""
        factor = self.factor
        if isinstance(factor.x, Gather):
            index = node_of(self.args, factor.rows, row, factor.x.end)
        else:
            index = own_row(self.args, factor.rows, row)
        width = self.launch.type_of(factor.x.buffer).width
        return f"{self.args.buffer(factor.x.buffer)} + int64_t({index}) * {width}"

    def _edge_pointer(self, x: SegmentSum, edge: str) -> str:
        """The row that an edge adds to its segment."""
        edges = Rows(Space.EDGE, self.factor.rows.group)
        if self.launch.type_of(x.buffer).space is Space.EDGE:
            index = own_row(self.args, edges, edge)
        else:
            index = node_of(self.args, edges, edge, x.end)
        width = self.launch.type_of(x.buffer).width
        return f"{self.args.buffer(x.buffer)} + int64_t({index}) * {width}"

    def segment_sum(self) -> Function:
        """The function that sums a pair's segment."""
        factor, args = self.factor, self.args
        x = factor.x
        assert isinstance(x, SegmentSum)
        pointer = args.index(factor.rows.group, "dst_pair_indptr")
        body: list[Statement] = [
            Declare("const int32_t", "begin", f"{pointer}[pair]"),
            Declare("const int32_t", "end", f"{pointer}[pair + 1]"),
        ]
        if x.weight is None and not self.is_narrow:
            one = f"return {self._edge_pointer(x, 'begin')}"
            body.append(If("end - begin == 1", (Do(one),)))
        body += [Scope(tuple(self._sum_tile(x, tile))) for tile in self._sum_tiles()]
        body.append(Do("return sum"))
        return Function(
            f"{self.name}: the operand's row of a pair, in sum or where it lies already",
            f"static inline const float* {self.name}_sum",
            ("const Context& c", "int32_t pair", "float* sum"),
            tuple(body),
        )

    def _sum_tiles(self) -> list[list[tuple[int, Piece]]]:
        """Pieces of the operand with their heads, as many at a time as registers hold."""
        factor, lanes = self.factor, self.schedule.lanes
        if self.weights_per_head:
            pieces = [(h, p) for h in range(factor.heads) for p in cut(factor.k, lanes)]
        else:
            pieces = [(0, p) for p in cut(factor.heads * factor.k, lanes)]
        return [pieces[i : i + _SUM_VECTORS] for i in range(0, len(pieces), _SUM_VECTORS)]

    def _sum_tile(self, x: SegmentSum, tile: list[tuple[int, Piece]]) -> list[Statement]:
        factor, args = self.factor, self.args
        per_head = self.weights_per_head
        shares_rows = per_head and self.launch.type_of(x.buffer).width == factor.k

        def name(h: int, p: Piece) -> str:
            return f"sum_{h * factor.k + p.offset}"

        loop: list[Statement] = []
        if self.schedule.prefetch and factor.k >= LINE:
            width = self.launch.type_of(x.buffer).width
            loop += [
                Declare(
                    "const int32_t", "ahead", f"minimum(e + {self.schedule.prefetch}, end - 1)"
                ),
                Do(f"prefetch_row<{width}>({self._edge_pointer(x, 'ahead')})"),
            ]
        pointers = f"const {pointer_type(self.element)}"
        loop.append(Declare(pointers, "in", self._edge_pointer(x, "e")))
        if x.weight is not None:
            edges = Rows(Space.EDGE, factor.rows.group)
            row = own_row(args, edges, "e")
            heads = factor.heads if per_head else 1
            for h in sorted({h for h, _ in tile}):
                place = f"int64_t({row}) * {heads} + {h}" if heads > 1 else row
                loop.append(Declare("const float", f"a_{h}", f"{args.buffer(x.weight)}[{place}]"))
        for h, p in tile:
            offset = p.offset if shares_rows else h * factor.k + p.offset
            term = loaded(self.element, p.type, "in", offset)
            if x.weight is not None:
                term = f"a_{h} * {term}"
            loop.append(Assign(name(h, p), term, "+="))
        unroll = self.schedule.unroll if self.schedule.unroll > 1 else 0
        return [
            *(Declare(p.type, name(h, p), f"{p.type}{{}}") for h, p in tile),
            in_parts(
                "begin",
                "end",
                (name(h, p) for h, p in tile),
                lambda start, stop: For("int32_t", "e", start, stop, tuple(loop), unroll=unroll),
            ),
            *(Do(f"store({at('sum', h * factor.k + p.offset)}, {name(h, p)})") for h, p in tile),
        ]


def each_row(*body: Statement) -> For:
    """The statements for every row m of a tile, unrolled."""
    return For("int", "m", "0", "M", tuple(body), unroll=16)
