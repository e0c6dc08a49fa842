"""Loops being lowered to blocks of rows, and what is loaded and stored in them."""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass, field

from hetune.variants.backends.places import Nest, Row
from hetune.variants.backends.triton.arguments import TritonArguments
from hetune.variants.backends.triton.target import TritonDo, TritonLet, TritonStatement
from hetune.variants.backends.triton.values import (
    Axis,
    TritonValue,
    lift,
    row_axes,
)
from hetune.variants.kernel.nodes import Launch, Rows
from hetune.variants.kernel.passes.aliases import may_share
from hetune.variants.kernel.widths import power_of_two


@dataclass(slots=True)
class TritonFrame:
    """One loop being lowered: the rows of this step, which of them there are, and its body."""

    rows: Rows
    variable: str
    inside: str
    lanes: tuple[Axis, ...]
    body: list[TritonStatement] = field(default_factory=list)
    known: dict[str, str] = field(default_factory=dict)
    """Expressions that already have a name in this loop."""
    stored: set[str] = field(default_factory=set)
    """Buffers written since the last barrier, by this loop or loops inside it."""
    loaded: set[str] = field(default_factory=set)
    """Buffers read since then."""


class TritonBlocks(Nest[TritonFrame]):
    """The stack of loops, innermost last, and the loads and stores of their rows."""

    def __init__(self, launch: Launch, arguments: TritonArguments) -> None:
        super().__init__(launch, arguments)
        self.args = arguments
        self.top: list[TritonStatement] = []
        """What stands before the outermost loop's body."""
        self._extents: dict[int, str] = {}

    def emit(self, statement: TritonStatement) -> None:
        """Append to the innermost loop's body."""
        self.inner.body.append(statement)

    def named(self, frame: TritonFrame, name: str, text: str) -> str:
        """A name for an expression in a loop; asked for again, the same."""
        if text not in frame.known:
            frame.known[text] = self.args.local(name)
            frame.body.append(TritonLet(frame.known[text], text))
        return frame.known[text]

    def rows_of(self, row: Row[TritonFrame]) -> str:
        """The numbers of the buffer's rows, one for each lane of the row's loop."""
        number = row.frame.variable
        for name, array in row.path:
            text = f"tl.load({array} + {number}, mask={row.frame.inside}, other=0)"
            number = self.named(row.frame, name, text)
        return number

    def load(
        self, buffer: str, shape: tuple[int, ...], row: Row[TritonFrame], frame: TritonFrame
    ) -> TritonValue:
        """The buffer's row for each lane, loaded in a loop."""
        self._wait(lambda before: self._is_any_of(buffer, before.stored))
        frame.loaded.add(buffer)
        place, axes, mask = self._place(buffer, shape, row)
        masked = f", mask={mask}, other=0.0" if mask else ""
        name = self.args.local(buffer)
        frame.body.append(TritonLet(name, f"tl.load({place}{masked})"))
        return TritonValue(name, shape, axes)

    def store(
        self, buffer: str, value: TritonValue, shape: tuple[int, ...], accumulate: bool
    ) -> None:
        """Write, or add to, the buffer's row of the innermost loop."""
        frame = self.inner
        place, axes, mask = self._place(buffer, shape, self.own(frame))
        masked = f", mask={mask}" if mask else ""
        text = TritonValue(value.text, shape, value.axes).over(axes)
        self._wait(lambda before: self._is_any_of(buffer, before.stored | before.loaded))
        if accumulate:
            name = self.named(frame, f"{buffer}_place", place)
            text = f"tl.load({name}{masked}) + {text}"
            place = name
        frame.body.append(TritonDo(f"tl.store({place}, {text}{masked})"))
        frame.stored.add(buffer)

    def close(self, inner: TritonFrame) -> None:
        """A loop of the innermost one has ended."""
        self.inner.stored |= inner.stored
        self.inner.loaded |= inner.loaded

    def _wait(self, needed: Callable[[TritonFrame], bool]) -> None:
        """A barrier in each loop whose earlier statements touched memory that is touched now.

        Threads may hold copies of what was loaded: all must have it before one overwrites it. And
        what was stored is there for other threads from a barrier on.
        """
        for frame in self.frames:
            if needed(frame):
                frame.body.append(TritonDo("tl.debug_barrier()"))
                frame.stored.clear()
                frame.loaded.clear()

    def _is_any_of(self, buffer: str, touched: Set[str]) -> bool:
        """Whether a buffer may be the memory of one of these."""
        return any(may_share(buffer, other, self.launch) for other in touched)

    def elements(self, extent: int) -> str:
        """A name for the numbers of an axis's elements, padded to a power of two."""
        if extent not in self._extents:
            name = self._extents[extent] = self.args.local(f"axis_{extent}")
            self.top.append(TritonLet(name, f"tl.arange(0, {power_of_two(extent)})"))
        return self._extents[extent]

    def element_mask(self, extent: int) -> str:
        """A name for the mask of an axis's elements that are no padding."""
        elements = self.elements(extent)
        mask = TritonLet(f"{elements}_in", f"{elements} < {extent}")
        if mask not in self.top:
            self.top.append(mask)
        return mask.name

    def columns(self, shape: tuple[int, ...], axes: tuple[Axis, ...]) -> list[str]:
        """Offsets of a row's elements, one term for each axis."""
        stride = 1
        found = []
        for axis, extent in reversed(list(enumerate(shape))):
            if extent > 1:
                step = self.elements(extent) if stride == 1 else None
                step = step or f"{self.elements(extent)} * {stride}"
                found.append(lift(step, (axis,), axes))
            stride *= extent
        return found[::-1]

    def padding(self, shape: tuple[int, ...], axes: tuple[Axis, ...]) -> list[str]:
        """Masks that leave padding out."""
        return [
            lift(self.element_mask(extent), (axis,), axes)
            for axis, extent in enumerate(shape)
            if extent & (extent - 1)
        ]

    def _place(
        self, buffer: str, shape: tuple[int, ...], row: Row[TritonFrame]
    ) -> tuple[str, tuple[Axis, ...], str]:
        """Pointers to a row's elements, their axes, and a mask."""
        lanes = () if row.shared else row.frame.lanes
        axes = (*lanes, *row_axes(shape))
        width = self.launch.type_of(buffer).width
        terms: list[str] = []
        if not row.shared:
            number = self.rows_of(row)
            start = number if width == 1 else f"{number}.to(tl.int64) * {width}"
            terms.append(lift(start, lanes, axes))
        terms += self.columns(shape, axes)
        place = " + ".join(terms)
        place = with_runs(place, axes, shape)
        place = f"{self.args.buffer(buffer)} + {place}" if place else self.args.buffer(buffer)
        masks = [] if row.shared else [lift(row.frame.inside, lanes, axes)]
        masks += self.padding(shape, axes)
        return place, axes, " & ".join(masks)


def with_runs(offsets: str, axes: tuple[Axis, ...], shape: tuple[int, ...]) -> str:
    """Offsets of rows' elements, with what a compiler is told of their order.

    Threads take the axes with the longest runs of neighbours first; of equal ones, that depends on
    Triton's version. So edges, which are to be one thread's, are said to have the shortest, and the
    last axis the longest: how wide loads are depends on it alone, and its runs are as long as said.
    """
    *others, last = axes or ("n",)
    if "u" not in others or not isinstance(last, int):
        return offsets
    longest = power_of_two(shape[last])
    runs = [*(min(1 << place, longest // 2) for place in range(len(others))), longest]
    return f"tl.max_contiguous({offsets}, {runs})"
