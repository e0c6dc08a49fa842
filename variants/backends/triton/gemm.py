"""Lowers a Gemm: a program multiplies a tile of rows of one type with some columns of a weight."""

from __future__ import annotations

from hetune.variants.backends.describe import describe_gemm
from hetune.variants.backends.places import node_array, own_array, type_array
from hetune.variants.backends.triton.arguments import Grid, Tiling, TritonArguments
from hetune.variants.backends.triton.body import compensated
from hetune.variants.backends.triton.tail import Tile, lower_tail
from hetune.variants.backends.triton.target import (
    TritonDo,
    TritonFor,
    TritonFunction,
    TritonLet,
    TritonStatement,
    assigned,
)
from hetune.variants.backends.triton.values import HELPERS, apply
from hetune.variants.kernel.gpu_schedule import GpuSchedule
from hetune.variants.kernel.nodes import Direct, Gather, Gemm, Launch, Rows, SegmentSum
from hetune.variants.kernel.widths import power_of_two
from hetune.variants.program.nodes import End, Space

_WARPS_OF_SUMS = 4
_LEAST = 16
"""Least extent of every axis of a `tl.dot`."""
_PIECES = ("", "_2")
"""Of a sum that are in registers at once, each with its own product: edges are walked for both."""


class TritonGemmLowering:
    """Lowers one Gemm of a launch into the kernel that runs it."""

    def __init__(
        self, gemm: Gemm, name: str, launch: Launch, schedule: GpuSchedule, precision: str
    ) -> None:
        self.gemm = gemm
        self.name = name
        self.launch = launch
        self.schedule, self.precision = schedule, precision
        self.args = TritonArguments(launch)
        self.helpers: set[str] = set()
        self.typed = launch.type_of(gemm.w).space is not Space.SHARED
        self.columns = tile_of(gemm.n, schedule.tile_columns)
        self.k = tile_of(gemm.k, schedule.k_of_tile(self._sums))
        self.pieces = _PIECES if self._sums and self.k < gemm.k else _PIECES[:1]
        self.size = schedule.rows_of_tile(self._sums, precision)
        self.edges = schedule.edges
        self.tiled = self.typed or gemm.only is not End.NONE or self._sums
        self.tiling = Tiling(
            gemm.rows, self.typed, self.size, gemm.only, self._sums, schedule.edges_of_sum(gemm)
        )

    @property
    def _sums(self) -> bool:
        return isinstance(self.gemm.x, SegmentSum)

    @property
    def grid(self) -> Grid:
        """A program for each tile of rows, tile of columns, and head."""
        rows = self.tiling if self.tiled else self.gemm.rows
        return Grid(rows, self.size, -(-self.gemm.n // self.columns), self.gemm.heads)

    @property
    def warps(self) -> int:
        """Fewer than the schedule's where a tile is small, twice as many where it is a sum.

        A sum and its product are in registers at once; with fewer warps they would not fit.
        """
        most = self.schedule.warps
        if self._sums:
            # As many as those of a product of as many rows, and twice that.
            most = 2 * min(most, _WARPS_OF_SUMS)
        return max(1, min(most, self.size * self.columns // 256))

    def function(self) -> TritonFunction:
        """The kernel."""
        body = [*self._rows(), *self._columns(), *self._product()]
        body += self._finish(body)
        return TritonFunction(
            self.name,
            f"{describe_gemm(self.gemm)}.",
            self.args.typed_pointers(),
            tuple(name for _, name in self.args.counts),
            tuple(body),
            self.warps,
            self.schedule.stages,
        )

    # --- which rows and columns ---------------------------------------------------------

    def _rows(self) -> list[TritonStatement]:
        args, gemm, size = self.args, self.gemm, self.size
        steps = f"tl.arange(0, {size})"
        if not self.tiled:
            return [
                TritonLet("row", f"tl.program_id(0) * {size} + {steps}"),
                TritonLet("row_in", f"row < {args.count(gemm.rows)}"),
            ]
        first, last = args.tiles(self.tiling, "first"), args.tiles(self.tiling, "last")
        body: list[TritonStatement] = [
            TritonLet("tile", "tl.program_id(0)"),
            TritonLet("i", f"tl.load({first} + tile) + {steps}"),
            TritonLet("row_in", f"i < tl.load({last} + tile)"),
            TritonLet("row", self._at(args.tiles(self.tiling, "rows"), "i")),
        ]
        if self.typed:
            body.append(TritonLet("kind", f"tl.load({args.tiles(self.tiling, 'type')} + tile)"))
        return body

    def _at(self, array: str, row: str, mask: str = "row_in") -> str:
        """An array's entry for each row."""
        return f"tl.load({array} + {row}, mask={mask}, other=0)" if array else row

    def _columns(self) -> list[TritonStatement]:
        gemm = self.gemm
        body: list[TritonStatement] = []
        column = f"tl.arange(0, {self.columns})"
        if self.columns < gemm.n:
            column = f"tl.program_id(1) * {self.columns} + {column}"
        body.append(TritonLet("column", column))
        if gemm.heads > 1:
            body.append(TritonLet("head", "tl.program_id(2)"))
        return body

    # --- the product --------------------------------------------------------------------

    def _product(self) -> list[TritonStatement]:
        gemm = self.gemm
        body = [*self._operand_rows(), *self._weight_start()]
        body.append(TritonLet("total", f"tl.zeros([{self.size}, {self.columns}], tl.float32)"))
        at_once = self.k * len(self.pieces)
        once = at_once >= gemm.k
        inner: list[TritonStatement] = []
        for place, piece in enumerate(self.pieces):
            start = [] if once else ["k_start"]
            start += [f"{self.k * place}"] if place else []
            inner.append(TritonLet(f"k{piece}", " + ".join((*start, f"tl.arange(0, {self.k})"))))
        inner += self._operand_tile()
        for piece in self.pieces:
            inner += self._multiplied(piece)
        if once:
            return [*body, *inner]
        return [*body, TritonFor("k_start", f"{gemm.k}", tuple(inner), f"{at_once}")]

    def _multiplied(self, piece: str) -> list[TritonStatement]:
        """Adds the product of a piece of the operand."""
        gemm, k = self.gemm, f"k{piece}"
        masks = []
        if self._is_padded:
            masks.append(f"({k} < {gemm.k})[:, None]")
        if gemm.n % self.columns:
            masks.append(f"(column < {gemm.n})[None, :]")
        mask = f", mask={' & '.join(masks)}, other=0.0" if masks else ""
        rows = f"{wide(f'{k}[:, None]', gemm.k * gemm.n)} * {gemm.n}"
        x, w = f"x_tile{piece}", f"w_tile{piece}"
        loaded = TritonLet(w, f"tl.load(w_start + {rows} + column[None, :]{mask})")
        how = f', input_precision="{self.precision}"'
        if self.precision == "bf16":
            x, w, how = f"{x}.to(tl.bfloat16)", f"{w}.to(tl.bfloat16)", ""
        return [loaded, TritonLet("total", f"tl.dot({x}, {w}, total{how})")]

    @property
    def _is_padded(self) -> bool:
        """Whether pieces of the operand reach over its end."""
        return bool(self.gemm.k % (self.k * len(self.pieces)))

    def _weight_start(self) -> list[TritonStatement]:
        gemm = self.gemm
        start, size = self.args.buffer(gemm.w), gemm.k * gemm.n
        if self.typed:
            start += f" + kind.to(tl.int64) * {gemm.heads * size}"
        if gemm.heads > 1:
            start += f" + {wide('head', gemm.heads * size)} * {size}"
        return [TritonLet("w_start", start)]

    def _operand_rows(self) -> list[TritonStatement]:
        """Where each row's operand begins, or its segment of edges."""
        gemm, args = self.gemm, self.args
        match gemm.x:
            case SegmentSum():
                return [
                    TritonLet("begin", self._at(args.tiles(self.tiling, "begin"), "i")),
                    TritonLet("end", self._at(args.tiles(self.tiling, "end"), "i")),
                    TritonLet("most", "tl.max(end - begin, axis=0)"),
                ]
            case Gather(buffer, end):
                array = node_array(args, gemm.rows, end)
            case Direct(buffer):
                array = own_array(args, gemm.rows)
        body: list[TritonStatement] = []
        source = "row"
        if array:
            source = "source"
            body.append(TritonLet(source, self._at(array, "row")))
        start = f"{self.args.buffer(buffer)} + {self._x_offset(buffer, source)}"
        body.append(TritonLet("x_start", start))
        return body

    def _x_offset(self, buffer: str, row: str) -> str:
        gemm = self.gemm
        width = self.launch.type_of(buffer).width
        start = f"{row}.to(tl.int64) * {width}"
        return f"{start} + head * {gemm.k}" if gemm.heads > 1 and width > gemm.k else start

    def _operand_tile(self) -> list[TritonStatement]:
        gemm = self.gemm
        if isinstance(gemm.x, SegmentSum):
            zeros = f"tl.zeros([{self.size}, {self.k}], tl.float32)"
            names = [f"x_tile{piece}" for piece in self.pieces]
            names += [] if self._is_short else [f"x_lost{piece}" for piece in self.pieces]
            steps = TritonFor("step", "most", tuple(self._summands(gemm.x)), f"{self.edges}")
            return [*(TritonLet(name, zeros) for name in names), steps]
        bounds = [f"(k < {gemm.k})[None, :]"] if self._is_padded else []
        mask = " & ".join(["row_in[:, None]", *bounds])
        place = "x_start[:, None] + k[None, :]"
        return [TritonLet("x_tile", f"tl.load({place}, mask={mask}, other=0.0)"), *self._active()]

    def _active(self) -> list[TritonStatement]:
        """The operand's function of the tile."""
        x = self.gemm.x
        if not isinstance(x, Direct) or not x.fn:
            return []
        self.helpers |= {x.fn} & HELPERS.keys()
        return [TritonLet("x_tile", apply(x.fn, ("x_tile",), x.const))]

    @property
    def _is_short(self) -> bool:
        """Whether a row sums so few edges that what their additions round away does not matter."""
        return bool(self.tiling.most_edges)

    def _summands(self, x: SegmentSum) -> list[TritonStatement]:
        """What the next edges of each row add to it; a thread has those of its columns."""
        gemm, args = self.gemm, self.args
        edges = Rows(Space.EDGE, gemm.rows.group)
        body: list[TritonStatement] = [
            TritonLet("edge", f"(begin + step)[None, :] + tl.arange(0, {self.edges})[:, None]"),
            TritonLet("edge_in", "edge < end[None, :]"),
        ]
        if x.weight is not None or self.launch.type_of(x.buffer).space is Space.EDGE:
            position = self._at(own_array(args, edges), "edge", "edge_in")
            body.append(TritonLet("position", position))
        source = "position"
        if self.launch.type_of(x.buffer).space is not Space.EDGE:
            source = "source"
            body.append(
                TritonLet(source, self._at(node_array(args, edges, x.end), "edge", "edge_in"))
            )
        body.append(TritonLet("x_start", self._x_offset(x.buffer, source)))
        if x.weight is not None:
            place = f"{args.buffer(x.weight)} + position"
            if self.launch.type_of(x.weight).width > 1:
                place = f"{args.buffer(x.weight)} + position.to(tl.int64) * {gemm.heads} + head"
            body.append(TritonLet("share", f"tl.load({place}, mask=edge_in, other=0.0)"))
        for piece in self.pieces:
            body += self._summand(x, piece)
        return body

    def _summand(self, x: SegmentSum, piece: str) -> list[TritonStatement]:
        k = f"k{piece}"
        bounds = [f"({k} < {self.gemm.k})[None, None, :]"] if self._is_padded else []
        mask = " & ".join(["edge_in[:, :, None]", *bounds])
        place = f"tl.max_contiguous(x_start[:, :, None] + {k}[None, None, :], [1, 2, {self.k}])"
        rows = f"tl.load({self.args.buffer(x.buffer)} + {place}, mask={mask}, other=0.0)"
        body: list[TritonStatement] = [TritonLet(f"rows{piece}", rows)]
        weighted = f"rows{piece}" if x.weight is None else f"share[:, :, None] * rows{piece}"
        total, term = f"x_tile{piece}", f"tl.sum({weighted}, axis=0)"
        if self._is_short:
            return [*body, TritonLet(total, f"{total} + {term}")]
        return [*body, *compensated(total, f"x_lost{piece}", term, self.args)]

    # --- the result ---------------------------------------------------------------------

    def _finish(self, before: list[TritonStatement]) -> list[TritonStatement]:
        """What follows the product: what becomes of its rows, and where they are stored."""
        gemm, args = self.gemm, self.args
        width = gemm.heads * gemm.n
        body: list[TritonStatement] = []
        own = self._own_row(body)
        if gemm.scale is not None:
            place = f"{args.buffer(gemm.scale)} + {own}"
            if self.launch.type_of(gemm.scale).width > 1:
                place = f"{args.buffer(gemm.scale)} + {own}.to(tl.int64) * {gemm.heads} + head"
            body.append(TritonLet("scale", f"tl.load({place}, mask=row_in, other=0.0)"))
            body.append(TritonLet("total", "scale[:, None] * total"))
        body.append(
            TritonLet("out_column", f"head * {gemm.n} + column" if gemm.heads > 1 else "column")
        )
        bound = f"column < {gemm.n}" if gemm.n % self.columns else ""
        bounds = [f"({bound})[None, :]"] if bound else []
        if gemm.bias is not None:
            body += self._bias(gemm.bias, bounds)
        if gemm.tail:
            args.reserve(assigned((*before, *body)))
            tile = Tile("total", "out_column", bound)
            tail, helpers = lower_tail(gemm, tile, self.launch, args)
            self.helpers |= helpers
            return [*body, *tail]
        out = own
        if gemm.scatter:
            out = "target"
            body.append(TritonLet(out, self._at(node_array(args, gemm.rows, End.DST), "row")))
        start = f"{args.buffer(gemm.out)} + {out}.to(tl.int64)[:, None] * {width}"
        mask = " & ".join(["row_in[:, None]", *bounds])
        body += [
            TritonLet("out_place", f"{start} + out_column[None, :]"),
            TritonLet("out_in", mask),
        ]
        if gemm.scatter:
            body.append(TritonDo('tl.atomic_add(out_place, total, mask=out_in, sem="relaxed")'))
            return body
        if gemm.accumulate:
            body.append(TritonLet("total", "tl.load(out_place, mask=out_in, other=0.0) + total"))
        body.append(TritonDo("tl.store(out_place, total, mask=out_in)"))
        return body

    def _own_row(self, body: list[TritonStatement]) -> str:
        """The row in buffers of the rows' own space, where it is needed."""
        gemm = self.gemm
        needed = gemm.scale is not None or not (gemm.scatter or gemm.tail)
        array = own_array(self.args, gemm.rows) if needed else ""
        if not array:
            return "row"
        body.append(TritonLet("own", self._at(array, "row")))
        return "own"

    def _bias(self, name: str, bounds: list[str]) -> list[TritonStatement]:
        width = self.gemm.heads * self.gemm.n
        place = f"{self.args.buffer(name)} + out_column[None, :]"
        masks = list(bounds)
        if self.launch.type_of(name).space is not Space.SHARED:
            kind = self._at(type_array(self.args, self.gemm.rows), "row")
            place += f" + {kind}[:, None] * {width}"
            masks.insert(0, "row_in[:, None]")
        mask = f", mask={' & '.join(masks)}, other=0.0" if masks else ""
        return [TritonLet("total", f"total + tl.load({place}{mask})")]


def tile_of(extent: int, most: int) -> int:
    """The extent of a tile: a power of two, of which `tl.dot` wants a least one."""
    return max(_LEAST, min(power_of_two(extent), most))


def wide(number: str, product: int) -> str:
    """A factor of a product that gets as large, in 64 bits where 32 are too few."""
    return number if product < 1 << 31 else f"{number}.to(tl.int64)"
