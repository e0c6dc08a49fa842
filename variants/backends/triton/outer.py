"""Lowers an Outer: a program adds the rows of a chunk of one type to a tile of the type's sum.

Chunks of one type meet in the sum, which another kernel has cleared before, by atomic additions.
"""

from __future__ import annotations

from hetune.variants.backends.describe import describe_outer
from hetune.variants.backends.places import node_array, own_array
from hetune.variants.backends.triton.arguments import Grid, Tiling, TritonArguments
from hetune.variants.backends.triton.gemm import tile_of, wide
from hetune.variants.backends.triton.target import (
    TritonDo,
    TritonFor,
    TritonFunction,
    TritonLet,
    TritonStatement,
)
from hetune.variants.errors import KernelError
from hetune.variants.kernel.gpu_schedule import GpuSchedule
from hetune.variants.kernel.nodes import Factor, Gather, Launch, Outer, Rows, SegmentSum
from hetune.variants.program.nodes import Space

CHUNK_ROWS = 1024
"""Rows of a chunk: float32 keeps the digits of their sum."""

_STEP_ROWS, _MOST_COLUMNS = 32, 64
_CLEARED = 1024
"""Elements that a program clears."""


def tiles_of_sum(outer: Outer, schedule: GpuSchedule) -> tuple[int, int]:
    """Rows and columns of the tiles that a type's sum is cut into."""
    most = min(schedule.tile_columns, _MOST_COLUMNS)
    return tile_of(outer.k, _MOST_COLUMNS), tile_of(outer.n, most)


class TritonOuterLowering:
    """Lowers the Outer of a launch into the kernel that adds its rows up."""

    def __init__(
        self, outer: Outer, name: str, launch: Launch, schedule: GpuSchedule, precision: str
    ) -> None:
        if any(isinstance(factor.x, SegmentSum) for factor in outer.factors):
            raise KernelError(
                f"in the Outer into {outer.out!r} an operand is a sum over edges: store it first"
            )
        self.outer, self.name, self.launch, self.precision = outer, name, launch, precision
        self.args = TritonArguments(launch)
        self.helpers: set[str] = set()
        self.k, self.columns = tiles_of_sum(outer, schedule)
        self.warps = max(1, min(schedule.warps, self.k * self.columns // 256))
        typed = launch.type_of(outer.out).space is not Space.SHARED
        self.tiling = Tiling(outer.rows, typed, CHUNK_ROWS)

    @property
    def grid(self) -> Grid:
        """A program for each chunk, tile of the sum, and head."""
        outer = self.outer
        tiles = -(-outer.k // self.k) * -(-outer.n // self.columns)
        return Grid(self.tiling, CHUNK_ROWS, tiles, outer.heads)

    def function(self) -> TritonFunction:
        """The kernel."""
        args, outer = self.args, self.outer
        tiles = -(-outer.n // self.columns)
        first, last = (args.tiles(self.tiling, field) for field in ("first", "last"))
        body: list[TritonStatement] = [
            TritonLet("tile", "tl.program_id(0)"),
            TritonLet("begin", f"tl.load({first} + tile)"),
            TritonLet("end", f"tl.load({last} + tile)"),
            TritonLet("k", f"tl.program_id(1) // {tiles} * {self.k} + tl.arange(0, {self.k})"),
            TritonLet(
                "column",
                f"tl.program_id(1) % {tiles} * {self.columns} + tl.arange(0, {self.columns})",
            ),
            TritonLet("head", "tl.program_id(2)"),
            TritonLet("total", f"tl.zeros([{self.k}, {self.columns}], tl.float32)"),
            TritonFor("step", "end - begin", tuple(self._step()), f"{_STEP_ROWS}"),
            *self._added(),
        ]
        return TritonFunction(
            self.name,
            f"{describe_outer(outer)}.",
            args.typed_pointers(),
            tuple(name for _, name in args.counts),
            tuple(body),
            self.warps,
        )

    def _step(self) -> list[TritonStatement]:
        """The next rows of the chunk, multiplied."""
        outer, args = self.outer, self.args
        *left, right = outer.factors
        body: list[TritonStatement] = [
            TritonLet("i", f"begin + step + tl.arange(0, {_STEP_ROWS})"),
            TritonLet("row_in", "i < end"),
            TritonLet(
                "row", f"tl.load({args.tiles(self.tiling, 'rows')} + i, mask=row_in, other=0)"
            ),
        ]
        if left:
            start = self._start(left[0], "x", body)
            place = f"{start}[None, :] + k[:, None]"
            inside = f"(k < {outer.k})[:, None] & row_in[None, :]"
            body.append(TritonLet("x_tile", f"tl.load({place}, mask={inside}, other=0.0)"))
        else:
            ones = "tl.where((k == 0)[:, None] & row_in[None, :], 1.0, 0.0)"
            body.append(TritonLet("x_tile", ones))
        start = self._start(right, "y", body)
        place = f"{start}[:, None] + column[None, :]"
        inside = f"row_in[:, None] & (column < {outer.n})[None, :]"
        body.append(TritonLet("y_tile", f"tl.load({place}, mask={inside}, other=0.0)"))
        if outer.scale is not None:
            body += self._scaled(outer.scale, inside)
        x, y, how = "x_tile", "y_tile", f', input_precision="{self.precision}"'
        if self.precision == "bf16":
            x, y, how = f"{x}.to(tl.bfloat16)", f"{y}.to(tl.bfloat16)", ""
        return [*body, TritonLet("total", f"tl.dot({x}, {y}, total{how})")]

    def _scaled(self, scale: str, inside: str) -> list[TritonStatement]:
        outer, body = self.outer, list[TritonStatement]()
        own = self._at(own_array(self.args, outer.rows), "own", body)
        parts = self.launch.type_of(scale).width
        part = f"((head * {outer.n} + column) // {outer.heads * outer.n // parts})[None, :]"
        place = f"{self.args.buffer(scale)} + {own}.to(tl.int64)[:, None] * {parts} + {part}"
        scaled = f"y_tile * tl.load({place}, mask={inside}, other=0.0)"
        return [*body, TritonLet("y_tile", scaled)]

    def _start(self, factor: Factor, side: str, body: list[TritonStatement]) -> str:
        """Where each row's operand begins."""
        x, args = factor.x, self.args
        if isinstance(x, Gather):
            row = self._at(node_array(args, factor.rows, x.end), f"{side}_row", body)
        else:
            row = self._at(own_array(args, factor.rows), f"{side}_row", body)
        width = factor.heads * factor.k
        start = f"{args.buffer(x.buffer)} + {row}.to(tl.int64) * {width}"
        start += f" + head * {factor.k}" if factor.heads > 1 else ""
        body.append(TritonLet(f"{side}_start", start))
        return f"{side}_start"

    def _at(self, array: str, name: str, body: list[TritonStatement]) -> str:
        """An array's entry for each row."""
        if not array:
            return "row"
        body.append(TritonLet(name, f"tl.load({array} + row, mask=row_in, other=0)"))
        return name

    def _added(self) -> list[TritonStatement]:
        outer = self.outer
        size = outer.k * outer.n
        start = self.args.buffer(outer.out)
        if self.tiling.typed:
            kind = f"tl.load({self.args.tiles(self.tiling, 'type')} + tile)"
            start += f" + {kind}.to(tl.int64) * {outer.heads * size}"
        if outer.heads > 1:
            start += f" + {wide('head', outer.heads * size)} * {size}"
        place = f"{start} + {wide('k[:, None]', size)} * {outer.n} + column[None, :]"
        inside = f"(k < {outer.k})[:, None] & (column < {outer.n})[None, :]"
        return [TritonDo(f'tl.atomic_add({place}, total, mask={inside}, sem="relaxed")')]


class ClearLowering:
    """Lowers what clears the sums of an Outer before rows are added to them."""

    def __init__(self, outer: Outer, name: str, launch: Launch) -> None:
        self.outer, self.name = outer, name
        self.args = TritonArguments(launch)
        self.helpers: set[str] = set()
        self.size = outer.heads * outer.k * outer.n
        self.types = Rows(launch.type_of(outer.out).space)

    @property
    def grid(self) -> Grid:
        """A program for each type and so many elements."""
        return Grid(self.types, 1, -(-self.size // _CLEARED))

    def function(self) -> TritonFunction:
        """The kernel."""
        start = f"{self.args.buffer(self.outer.out)} + tl.program_id(0).to(tl.int64) * {self.size}"
        body = (
            TritonLet("i", f"tl.program_id(1) * {_CLEARED} + tl.arange(0, {_CLEARED})"),
            TritonDo(f"tl.store({start} + i, 0.0, mask=i < {self.size})"),
        )
        return TritonFunction(
            self.name, f"{self.outer.out} = 0.", self.args.typed_pointers(), (), body
        )
