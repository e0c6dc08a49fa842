"""Lowers the statements of a Traversal's body to blocks of rows, whichever rows a program takes."""

from __future__ import annotations

from math import prod

from hetune.variants.backends.describe import describe_traversal
from hetune.variants.backends.places import VARIABLES, segment_array
from hetune.variants.backends.triton.arguments import TritonArguments
from hetune.variants.backends.triton.blocks import TritonBlocks, TritonFrame
from hetune.variants.backends.triton.target import (
    TritonCallee,
    TritonFor,
    TritonFunction,
    TritonLet,
    TritonStatement,
)
from hetune.variants.backends.triton.values import (
    HELPERS,
    LANES,
    Axis,
    TritonValue,
    apply,
    broadcast,
    literal,
    row_axes,
)
from hetune.variants.kernel.nodes import (
    REDUCTIONS,
    Apply,
    Def,
    FoldAxis,
    ForEach,
    Init,
    Inner,
    Launch,
    Read,
    Stmt,
    Traversal,
    Update,
    Write,
)
from hetune.variants.kernel.walk import statements, writes
from hetune.variants.kernel.widths import power_of_two, widest

_MOST_WARPS = 4
_ELEMENTS_OF_WARP = 512
_REDUCED = {"sum": "tl.sum", "max": "tl.max"}
_COMBINES = {"prod": "mul"}
_FOLDS = {"sum": "sum", "mean": "sum", "max": "maximum", "min": "minimum"}
"""The reductions that folds of an axis are."""
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
        self.args = TritonArguments(launch)
        self.blocks = TritonBlocks(launch, self.args)
        self.values: dict[str, TritonValue] = {}
        self.reductions: dict[str, str] = {}
        self.compensates = True
        """Whether sums of inner rows may be long, and keep what their additions round away."""
        self.lost: dict[str, str] = {}
        """What each such sum has too much, by the rounding of its last addition."""
        self.zeros: set[str] = set()
        """Values that are 0 in lanes without a row."""
        self.lowest: set[str] = set()
        """Values that are -inf there."""
        self.below: dict[str, list[str]] = {}
        """Of each running maximum, the sums below it."""
        self.helpers: set[str] = set()
        self.stored = frozenset(name for each in traversals for name in writes(each))
        self.width = widest(traversals, launch)
        self.extents: dict[Axis, str] = {"n": "1"}
        """How many rows of the outermost loop a program takes, and edges of each at once."""
        self.elements = self.width
        """Float32 elements of the widest value of all of them."""

    @property
    def warps(self) -> int:
        """Warps that a program's values keep busy."""
        return min(_MOST_WARPS, max(1, power_of_two(self.elements) // _ELEMENTS_OF_WARP))

    def _printed(
        self, body: tuple[TritonStatement, ...], part: str = "", callee: TritonCallee | None = None
    ) -> TritonFunction:
        """The kernel of a body, and for which part of the rows it is, if not all."""
        described = " Then ".join(f"{describe_traversal(each)}." for each in self.traversals)
        return TritonFunction(
            self.name,
            f"{described} {part}" if part else described,
            self.args.typed_pointers(),
            tuple(name for _, name in self.args.counts),
            body,
            self.warps,
            callee=callee,
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
            case Def(name=name, expr=FoldAxis() as expr):
                self._fold(name, expr)
            case Init():
                self._declare(stmt)
            case Update(name, value):
                if name in self.below:
                    self._mask(value)
                self._update(name, self.values[value])
            case Write():
                self._store(stmt)
            case ForEach():
                self._for_each(stmt)

    def _declare(self, stmt: Init) -> None:
        self.reductions[stmt.name] = stmt.reduce
        lanes = self.blocks.inner.lanes
        sizes = [self.extents[lane] for lane in lanes]
        sizes += [str(power_of_two(extent)) for extent in stmt.shape if extent > 1]
        start = literal(REDUCTIONS[stmt.reduce])
        if stmt.name in self.below:
            start = LOWEST
        name = self.args.local(stmt.name)
        self.blocks.emit(TritonLet(name, f"tl.full([{', '.join(sizes)}], {start}, tl.float32)"))
        self.values[stmt.name] = TritonValue(name, stmt.shape, (*lanes, *row_axes(stmt.shape)))
        if stmt.reduce == "sum" and self.compensates and "u" not in lanes:
            self.lost[stmt.name] = lost = self.args.local(f"{stmt.name}_lost")
            self.blocks.emit(TritonLet(lost, f"tl.zeros_like({name})"))

    def _mask(self, name: str) -> None:
        """Make a score the lowest in lanes without a row, so that its exponential is 0 there."""
        value, frame = self.values[name], self.blocks.inner
        axes: tuple[Axis, ...] = (*frame.lanes, *row_axes(value.shape))
        inside = TritonValue(frame.inside, (), frame.lanes).over(axes)
        text = f"tl.where({inside}, {value.over(axes)}, {literal(REDUCTIONS['max'])})"
        self._define(name, value.shape, axes, text)
        self.lowest.add(self.values[name].text)

    def _update(self, name: str, value: TritonValue) -> None:
        """Add up the rows that there are; the lanes of others hold anything."""
        total, frame = self.values[name], self.blocks.inner
        axes: tuple[Axis, ...] = (*frame.lanes, *row_axes(total.shape))
        reduction = self.reductions[name]
        adds = reduction == "sum"
        masked = self.zeros if adds else self.lowest if reduction == "max" else ()
        term = TritonValue(value.text, total.shape, value.axes).over(axes)
        if len(self.blocks.frames) > 1 and value.text not in masked:
            inside = TritonValue(frame.inside, (), frame.lanes).over(axes)
            neutral = literal(REDUCTIONS[reduction])
            term = f"tl.where({inside}, {term}, {neutral})"
        if "u" in axes and "u" not in total.axes:
            term = self._reduced(reduction, term, 0)
        if reduction == "max":
            self._grow(name, f"tl.maximum({total.text}, {term})")
        elif not adds:
            combined = apply(_COMBINES.get(reduction, reduction), (total.text, term), None)
            self.blocks.emit(TritonLet(total.text, combined))
        elif name in self.lost:
            for statement in compensated(total.text, self.lost[name], term, self.args):
                self.blocks.emit(statement)
        else:
            self.blocks.emit(TritonLet(total.text, f"{total.text} + {term}"))

    def _reduced(self, reduction: str, text: str, axis: int) -> str:
        """What a reduction makes of an axis."""
        if reduction in _REDUCED:
            return f"{_REDUCED[reduction]}({text}, axis={axis})"
        self.helpers.add(f"{reduction}_of")
        return f"tl.reduce({text}, {axis}, {reduction}_of)"

    def _grow(self, name: str, grown: str) -> None:
        """A maximum grows; what has been summed below it shrinks."""
        top = self.values[name]
        if name not in self.below:
            self.blocks.emit(TritonLet(top.text, grown))
            return
        new, fade = (self.args.local(f"{name}_{suffix}") for suffix in ("new", "fade"))
        self.blocks.emit(TritonLet(new, grown))
        self.blocks.emit(TritonLet(fade, f"tl.exp({top.text} - {new})"))
        for below in self.below[name]:
            total = self.values[below]
            factor = TritonValue(fade, top.shape, top.axes).over(total.axes)
            for held in (total.text, self.lost.get(below)):
                if held is not None:
                    self.blocks.emit(TritonLet(held, f"{held} * {factor}"))
        self.blocks.emit(TritonLet(top.text, new))

    def _store(self, stmt: Write) -> None:
        kind = self.launch.type_of(stmt.buffer)
        value = self.values[stmt.value]
        shape = value.shape if prod(value.shape) == kind.width else kind.shape
        self.blocks.store(stmt.buffer, value, shape, stmt.accumulate)

    def _for_each(self, loop: ForEach) -> None:
        """All rows of the block take their steps together; those that have ended are masked."""
        blocks, outer = self.blocks, self.blocks.inner
        pointer = segment_array(self.args, outer.rows, loop.rows)
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
        self._walk(loop, begin, end, most)

    def _walk(self, loop: ForEach, begin: str, end: str, most: str) -> None:
        """A loop over segments of inner rows, of which the longest has ``most``."""
        blocks, args = self.blocks, self.args
        variable = VARIABLES[loop.rows.space]
        step, row = args.local(f"{variable}_step"), args.local(variable)
        edges = self.extents.get("u", "")
        lanes: tuple[Axis, ...] = LANES if edges else ("n",)
        frame = TritonFrame(loop.rows, row, args.local(f"{row}_in"), lanes)
        start = TritonValue(f"{begin} + {step}", (), ("n",)).over(lanes)
        start += f" + tl.arange(0, {edges})[:, None]" if edges else ""
        frame.body += [
            TritonLet(row, start),
            TritonLet(frame.inside, f"{row} < {TritonValue(end, (), ('n',)).over(lanes)}"),
        ]
        blocks.frames.append(frame)
        for stmt in loop.body:
            self._lower(stmt)
        blocks.frames.pop()
        blocks.close(frame)
        blocks.emit(TritonFor(step, most, tuple(frame.body), edges or "1"))

    # --- expressions --------------------------------------------------------------------

    def _read(self, name: str, shape: tuple[int, ...], read: Read) -> None:
        row = self.blocks.locate(read)
        # What this kernel writes must be read where it stands, not before the loop.
        frame = self.blocks.inner if read.buffer in self.stored else row.frame
        self.values[name] = self.blocks.load(read.buffer, shape, row, frame)
        if frame is row.frame is self.blocks.inner and not row.shared:
            self.zeros.add(self.values[name].text)

    def _define(self, name: str, shape: tuple[int, ...], axes: tuple[Axis, ...], text: str) -> None:
        local = self.args.local(name)
        self.blocks.emit(TritonLet(local, text))
        self.values[name] = TritonValue(local, shape, axes)

    def _apply(self, name: str, expr: Apply) -> None:
        args = tuple(self.values[arg] for arg in expr.args)
        shape, axes = _outer(*args) if expr.fn == "outer" else broadcast(args)
        if expr.fn == "outer":
            args = args[0], _moved_last(args[1])
        if expr.fn in HELPERS:
            self.helpers.add(expr.fn)
        text = apply(expr.fn, tuple(arg.over(axes) for arg in args), expr.const)
        tops = {self.values[top].text for top in self.below if top in self.values}
        self._define(name, shape, axes, text)
        first, *others = (arg.text for arg in args)
        keep_zeros = expr.fn in ("add", "sub", "mul", "scale")
        is_lowest = first in self.lowest
        if (keep_zeros and self.zeros.issuperset((first, *others))) or (
            is_lowest and expr.fn == "exp"
        ):
            self.zeros.add(self.values[name].text)
        elif is_lowest and expr.fn == "sub" and tops.issuperset(others):
            self.lowest.add(self.values[name].text)

    def _inner(self, name: str, expr: Inner) -> None:
        x, y = self.values[expr.x], self.values[expr.y]
        longer, shorter = (x, y) if len(x.shape) >= len(y.shape) else (y, x)
        if len(shorter.shape) < len(longer.shape):
            shorter = _shifted(shorter, len(longer.shape) - len(shorter.shape))
        lanes = tuple(a for a in LANES if a in (*longer.axes, *shorter.axes))
        axes: tuple[Axis, ...] = (*lanes, *row_axes(longer.shape))
        product = f"{longer.over(axes)} * {shorter.over(axes)}"
        last = len(longer.shape) - 1
        extent = longer.shape[last]
        if extent & (extent - 1):
            mask = TritonValue(self.blocks.element_mask(extent), (), (last,)).over(axes)
            product = f"tl.where({mask}, {product}, 0.0)"
        if last in axes:
            product = f"tl.sum({product}, axis={axes.index(last)})"
        self._define(name, longer.shape[:-1], tuple(a for a in axes if a != last), product)

    def _fold(self, name: str, expr: FoldAxis) -> None:
        """Padding of the axis is left out of it."""
        x, axis = self.values[expr.x], expr.axis
        extent = x.shape[axis]
        shape = x.shape[:axis] + x.shape[axis + 1 :]
        moved = tuple(a - 1 if isinstance(a, int) and a > axis else a for a in x.axes if a != axis)
        if axis not in x.axes:  # one element
            self._define(name, shape, moved, x.text)
            return
        reduction = _FOLDS[expr.fn]
        text = x.text
        if extent & (extent - 1):
            mask = TritonValue(self.blocks.element_mask(extent), (), (axis,)).over(x.axes)
            text = f"tl.where({mask}, {text}, {literal(REDUCTIONS[reduction])})"
        text = self._reduced(reduction, text, x.axes.index(axis))
        factor = f" * {literal(1 / extent)}" if expr.fn == "mean" else ""
        self._define(name, shape, moved, f"{text}{factor}")


def compensated(total: str, lost: str, term: str, args: TritonArguments) -> list[TritonStatement]:
    """Adds a term to a sum, and to the next one what this addition rounds away.

    A sum of any number of terms is as exact as one of a few (Kahan, Further remarks on reducing
    truncation errors, 1965); such loops wait for memory, and not for arithmetic.
    """
    added, grown = args.local(f"{total}_added"), args.local(f"{total}_grown")
    return [
        TritonLet(added, f"{term} - {lost}"),
        TritonLet(grown, f"{total} + {added}"),
        TritonLet(lost, f"({grown} - {total}) - {added}"),
        TritonLet(total, grown),
    ]


def sums_below(traversal: Traversal) -> dict[str, list[str]]:
    """Of each running maximum, the sums below it."""
    found: dict[str, list[str]] = {}
    for stmt in statements(traversal.body):
        if isinstance(stmt, Init) and stmt.below:
            found.setdefault(stmt.below, []).append(stmt.name)
    return found


def _outer(x: TritonValue, y: TritonValue) -> tuple[tuple[int, ...], tuple[Axis, ...]]:
    """The shape and the axes of all products of two rows."""
    shape = (*x.shape, y.shape[-1])
    return shape, (*(a for a in LANES if a in (*x.axes, *y.axes)), *row_axes(shape))


def _moved_last(y: TritonValue) -> TritonValue:
    """A row whose last axis is one further."""
    last = len(y.shape) - 1
    axes = tuple(last + 1 if axis == last else axis for axis in y.axes)
    return TritonValue(y.text, (*y.shape[:-1], 1, y.shape[-1]), axes)


def _shifted(value: TritonValue, by: int) -> TritonValue:
    """A row as the last axes of a longer one."""
    axes = tuple(axis + by if isinstance(axis, int) else axis for axis in value.axes)
    return TritonValue(value.text, (1,) * by + value.shape, axes)
