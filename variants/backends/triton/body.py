"""Lowers the statements of a Traversal's body to blocks of rows, whichever rows a program takes."""

from __future__ import annotations

from math import prod

from hetune.variants.backends.describe import describe_traversal
from hetune.variants.backends.places import VARIABLES, segment_array
from hetune.variants.backends.triton.arguments import Arguments
from hetune.variants.backends.triton.blocks import Blocks, Frame
from hetune.variants.backends.triton.target import For, Function, Let, Statement
from hetune.variants.backends.triton.values import (
    HELPERS,
    LANES,
    Axis,
    Value,
    apply,
    broadcast,
    row_axes,
)
from hetune.variants.errors import KernelError
from hetune.variants.kernel.nodes import (
    Apply,
    Def,
    ForEach,
    Init,
    Inner,
    Launch,
    Read,
    Stmt,
    Store,
    Traversal,
    Update,
)
from hetune.variants.kernel.walk import statements, writes
from hetune.variants.kernel.widths import power_of_two, widest
from hetune.variants.program.nodes import Space

_MOST_WARPS = 8
LOWEST = "-3.4028234663852886e+38"
"""Where a running maximum starts: unlike -inf, what is subtracted from it is a number."""


class BodyLowering:
    """Lowers Traversals over the same rows, one after the other, into one kernel.

    Who derives from it says which rows a program takes.
    """

    def __init__(self, traversals: tuple[Traversal, ...], name: str, launch: Launch) -> None:
        self.traversals = traversals
        self.rows = traversals[0].rows
        self.name = name
        self.launch = launch
        self.args = Arguments(launch)
        self.blocks = Blocks(launch, self.args)
        self.values: dict[str, Value] = {}
        self.reductions: dict[str, str] = {}
        self.lost: dict[str, str] = {}
        """What each sum has too much, by the rounding of its last addition."""
        self.below: dict[str, list[str]] = {}
        """Of each running maximum, the sums below it."""
        self.helpers: set[str] = set()
        self.stored = frozenset(name for each in traversals for name in writes(each))
        self.width = widest(traversals, launch)
        self.size = 1
        """Rows of the outermost loop that a program takes."""
        self.edges = 1
        """Edges of inner loops that it has in flight for each of them."""

    @property
    def warps(self) -> int:
        """Warps that a program's values keep busy."""
        elements = self.size * self.edges * self.width
        return min(_MOST_WARPS, max(1, power_of_two(elements) // 1024))

    def _printed(self, body: tuple[Statement, ...], part: str = "") -> Function:
        """The kernel of a body, and for which part of the rows it is, if not all."""
        described = " Then ".join(f"{describe_traversal(each)}." for each in self.traversals)
        return Function(
            self.name,
            f"{described} {part}" if part else described,
            self.args.typed_pointers(),
            tuple(name for _, name in self.args.counts),
            body,
            self.warps,
        )

    # --- statements ---------------------------------------------------------------------

    def _lower(self, stmt: Stmt) -> None:
        match stmt:
            case Def(name=name, shape=shape, expr=Read() as read):
                self._read(name, shape, read)
            case Def(name=name, expr=Apply() as expr):
                self._apply(name, expr)
            case Def(name=name, expr=Inner() as expr):
                self._inner(name, expr)
            case Init():
                self._declare(stmt)
            case Update(name, value):
                self._update(name, self.values[value])
            case Store():
                self._store(stmt)
            case ForEach():
                self._for_each(stmt)

    def _declare(self, stmt: Init) -> None:
        self.reductions[stmt.name] = stmt.reduce
        lanes = self.blocks.inner.lanes
        sizes = [self.size, self.edges][: len(lanes)]
        sizes += [power_of_two(extent) for extent in stmt.shape if extent > 1]
        start = "0.0" if stmt.reduce == "sum" else 'float("-inf")'
        if stmt.name in self.below:
            start = LOWEST
        name = self.args.local(stmt.name)
        self.blocks.emit(Let(name, f"tl.full({sizes}, {start}, tl.float32)"))
        self.values[stmt.name] = Value(name, stmt.shape, (*lanes, *row_axes(stmt.shape)))
        if stmt.reduce == "sum":
            self.lost[stmt.name] = lost = self.args.local(f"{stmt.name}_lost")
            self.blocks.emit(Let(lost, f"tl.full({sizes}, 0.0, tl.float32)"))

    def _update(self, name: str, value: Value) -> None:
        """Add up the rows that there are; the lanes of others hold anything."""
        total, frame = self.values[name], self.blocks.inner
        axes: tuple[Axis, ...] = (*frame.lanes, *row_axes(total.shape))
        term = Value(value.text, total.shape, value.axes).over(axes)
        neutral = "0.0" if self.reductions[name] == "sum" else 'float("-inf")'
        if len(self.blocks.frames) > 1:
            inside = Value(frame.inside, (), frame.lanes).over(axes)
            term = f"tl.where({inside}, {term}, {neutral})"
        reduce = "tl.sum" if self.reductions[name] == "sum" else "tl.max"
        if "u" in axes and "u" not in total.axes:
            term = f"{reduce}({term}, axis=1)"
        if reduce == "tl.sum":
            for statement in compensated(total.text, self.lost[name], term, self.args):
                self.blocks.emit(statement)
        elif name in self.below:
            self._raise(name, f"tl.maximum({total.text}, {term})")
        else:
            self.blocks.emit(Let(total.text, f"tl.maximum({total.text}, {term})"))

    def _raise(self, name: str, raised: str) -> None:
        """A maximum grows: what has been summed below it shrinks."""
        top = self.values[name]
        new, fade = (self.args.local(f"{name}_{suffix}") for suffix in ("new", "fade"))
        self.blocks.emit(Let(new, raised))
        self.blocks.emit(Let(fade, f"tl.exp({top.text} - {new})"))
        for below in self.below[name]:
            total = self.values[below]
            factor = Value(fade, top.shape, top.axes).over(total.axes)
            for held in (total.text, self.lost[below]):
                self.blocks.emit(Let(held, f"{held} * {factor}"))
        self.blocks.emit(Let(top.text, new))

    def _store(self, stmt: Store) -> None:
        kind, frame = self.launch.type_of(stmt.buffer), self.blocks.inner
        if kind.space is not frame.rows.space:
            raise KernelError(
                f"a loop over {frame.rows.space} rows stores to {stmt.buffer!r}, which has "
                f"{kind.space} rows: store from a loop over those"
            )
        value = self.values[stmt.value]
        shape = value.shape if prod(value.shape) == kind.width else kind.shape
        self.blocks.store(stmt.buffer, value, shape, stmt.accumulate)

    def _for_each(self, loop: ForEach) -> None:
        """All rows of the block take their steps together; those that have ended are masked."""
        blocks, args, outer = self.blocks, self.args, self.blocks.inner
        pointer = segment_array(args, outer.rows, loop.rows)
        variable = VARIABLES[loop.rows.space]
        number, inside = outer.variable, outer.inside
        begin, end = (
            blocks.named(
                outer,
                f"{variable}_{name}",
                f"tl.load({pointer} + {number}{after}, mask={inside}, other=0)",
            )
            for name, after in (("begin", ""), ("end", " + 1"))
        )
        most = blocks.named(outer, f"{variable}_most", f"tl.max({end} - {begin}, axis=0)")
        edges = self.edges if loop.rows.space is Space.EDGE else 1
        step, row = args.local(f"{variable}_step"), args.local(variable)
        lanes: tuple[Axis, ...] = ("n", "u") if edges > 1 else ("n",)
        frame = Frame(loop.rows, row, args.local(f"{row}_in"), lanes)
        start = Value(f"{begin} + {step}", (), ("n",)).over(lanes)
        if edges > 1:
            start += f" + tl.arange(0, {edges})[None, :]"
        frame.body += [
            Let(row, start),
            Let(frame.inside, f"{row} < {Value(end, (), ('n',)).over(lanes)}"),
        ]
        blocks.frames.append(frame)
        for stmt in loop.body:
            self._lower(stmt)
        blocks.frames.pop()
        blocks.close(frame)
        blocks.emit(For(step, most, tuple(frame.body), edges))

    # --- expressions --------------------------------------------------------------------

    def _read(self, name: str, shape: tuple[int, ...], read: Read) -> None:
        kind = self.launch.type_of(read.buffer)
        if prod(shape) != kind.width:
            raise KernelError(f"{name!r} has shape {shape}, rows of {read.buffer!r} {kind.shape}")
        row = self.blocks.locate(read)
        # What this kernel writes must be read where it stands, not before the loop.
        frame = self.blocks.inner if read.buffer in self.stored else row.frame
        self.values[name] = self.blocks.load(read.buffer, shape, row, frame)

    def _define(self, name: str, shape: tuple[int, ...], axes: tuple[Axis, ...], text: str) -> None:
        local = self.args.local(name)
        self.blocks.emit(Let(local, text))
        self.values[name] = Value(local, shape, axes)

    def _apply(self, name: str, expr: Apply) -> None:
        args = tuple(self.values[arg] for arg in expr.args)
        shape, axes = broadcast(args)
        if expr.fn in HELPERS:
            self.helpers.add(expr.fn)
        text = apply(expr.fn, tuple(arg.over(axes) for arg in args), expr.const)
        self._define(name, shape, axes, text)

    def _inner(self, name: str, expr: Inner) -> None:
        x, y = self.values[expr.x], self.values[expr.y]
        longer, shorter = (x, y) if len(x.shape) >= len(y.shape) else (y, x)
        if not shorter.shape or shorter.shape != longer.shape[-len(shorter.shape) :]:
            raise KernelError(f"no inner product of rows of shapes {x.shape} and {y.shape}")
        if len(shorter.shape) < len(longer.shape):
            shorter = _shifted(shorter, len(longer.shape) - len(shorter.shape))
        lanes = tuple(a for a in LANES if a in (*longer.axes, *shorter.axes))
        axes: tuple[Axis, ...] = (*lanes, *row_axes(longer.shape))
        product = f"{longer.over(axes)} * {shorter.over(axes)}"
        last = len(longer.shape) - 1
        extent = longer.shape[last]
        if extent & (extent - 1):
            mask = Value(self.blocks.element_mask(extent), (), (last,)).over(axes)
            product = f"tl.where({mask}, {product}, 0.0)"
        if last in axes:
            product = f"tl.sum({product}, axis={axes.index(last)})"
        self._define(name, longer.shape[:-1], tuple(a for a in axes if a != last), product)


def compensated(total: str, lost: str, term: str, args: Arguments) -> list[Statement]:
    """Adds a term to a sum, and to the next one what this addition rounds away.

    A sum of any number of terms is as exact as one of a few (Kahan, Further remarks on reducing
    truncation errors, 1965); such loops wait for memory, and not for arithmetic.
    """
    added, grown = args.local(f"{total}_added"), args.local(f"{total}_grown")
    return [
        Let(added, f"{term} - {lost}"),
        Let(grown, f"{total} + {added}"),
        Let(lost, f"({grown} - {total}) - {added}"),
        Let(total, grown),
    ]


def sums_below(traversal: Traversal) -> dict[str, list[str]]:
    """Of each running maximum, the sums below it."""
    found: dict[str, list[str]] = {}
    for stmt in statements(traversal.body):
        if isinstance(stmt, Init) and stmt.below:
            found.setdefault(stmt.below, []).append(stmt.name)
    return found


def _shifted(value: Value, by: int) -> Value:
    """A row as the last axes of a longer one."""
    axes = tuple(axis + by if isinstance(axis, int) else axis for axis in value.axes)
    return Value(value.text, (1,) * by + value.shape, axes)
