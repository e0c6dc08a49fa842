"""Lowers Traversals whose inner rows are shared out in parts, so that degrees make no difference.

A program takes parts of about one length. It finishes the rows whose edges are one part. What the
parts of other rows yield goes to memory as partial rows, which a second kernel adds up in order, as
often as there are several of one row: nothing is atomic, and the same run gives the same bits.
"""

from __future__ import annotations

from math import prod

from hetune.variants.backends.places import VARIABLES
from hetune.variants.backends.triton.arguments import (
    CarrySlot,
    Cut,
    FirstProgram,
    Grid,
    Level,
    PartsTable,
)
from hetune.variants.backends.triton.blocks import TritonFrame, with_runs
from hetune.variants.backends.triton.body import LOWEST, BodyLowering, sums_below
from hetune.variants.backends.triton.target import (
    TritonCall,
    TritonCallee,
    TritonDo,
    TritonFor,
    TritonFunction,
    TritonIf,
    TritonLet,
    TritonStatement,
)
from hetune.variants.backends.triton.values import LANES, Axis, TritonValue, lift, row_axes
from hetune.variants.kernel.gpu_schedule import GpuSchedule
from hetune.variants.kernel.nodes import ForEach, Init, Launch, Stmt, Traversal
from hetune.variants.kernel.passes.idle import adds_sums_over
from hetune.variants.kernel.passes.phases import Phase


class SharedLowering(BodyLowering):
    """The kernel that walks the parts of a Traversal of one phase."""

    joins = False

    def __init__(
        self, walk: Traversal, phase: Phase, name: str, launch: Launch, schedule: GpuSchedule
    ) -> None:
        super().__init__((walk,), f"{name}_join" if self.joins else name, launch)
        self.phase = phase
        self.below = sums_below(walk)
        self.compensates = self.joins
        self.table = PartsTable(
            cut_of(walk, phase, schedule), schedule.edges, schedule.parts_of_walk(self.width)
        )
        self.extents = {"n": "P", "u": "U"}
        self.elements = self.table.parts * self.table.edges * self.width
        self.carry = CarrySlot(f"{name} partial rows", self.table.cut, carried_width(phase))
        self._part, self._first, self._last = map(self.args.local, ("part", "first", "last"))
        self._most = [self.args.local("most") for _ in self._loops]

    @property
    def grid(self) -> Grid:
        """A program for some parts."""
        return Grid(Level(self.table, self.joins))

    @property
    def _loops(self) -> tuple[ForEach, ...]:
        return self.phase.loops

    def function(self) -> TritonFunction:
        """The kernel."""
        tile = self._tile()
        program = self.args.local("program")
        first = self.args.parts(self.table, "first")
        of_first = self.args.count(FirstProgram())
        body: list[TritonStatement] = [
            TritonLet(program, f"tl.program_id(0) + {of_first}"),
            TritonLet(self._first, f"tl.load({first} + {program})"),
            TritonLet(self._last, f"tl.load({first} + {program} + 1)"),
        ]
        for loop, most in enumerate(self._most):
            longest = self.args.parts(self.table, "most", loop)
            body.append(TritonLet(most, f"tl.load({longest} + {program})"))
        return self._printed(
            (*body, self._chosen(tile)), "Partial rows." if self.joins else "", tile
        )

    def _chosen(self, tile: TritonCallee) -> TritonStatement:
        """The call that suits the program's longest part."""
        longest = self._most[0]
        for most in self._most[1:]:
            longest = f"tl.maximum({longest}, {most})"
        *short, edges = self.table.tiles
        call: TritonStatement = TritonCall((*tile.numbers, f"{edges}", f"{self.table.parts}"))
        for length in reversed(short):
            size = self.table.parts_of_length(length)
            one = TritonCall((*tile.numbers, f"{length}", f"{size}"))
            call = TritonIf(f"{longest} <= {length}", (one,), (call,))
        return call

    def _tile(self) -> TritonCallee:
        """What a program does with its parts."""
        args, part = self.args, self._part
        variable = args.local(VARIABLES[self.rows.space])
        frame = TritonFrame(self.rows, variable, args.local(f"{variable}_in"), ("n",))
        row = args.parts(self.table, "row")
        head = [
            TritonLet(part, f"{self._first} + tl.arange(0, P)"),
            TritonLet(frame.inside, f"{part} < {self._last}"),
            TritonLet(frame.variable, f"tl.load({row} + {part}, mask={frame.inside}, other=0)"),
        ]
        self.blocks.frames.append(frame)
        self._lower_all(self.phase.before)
        self._lower_loops()
        self._finish(frame)
        return TritonCallee(
            (self._first, self._last, *self._most),
            ("U", "P"),
            (*head, *self.blocks.top, *frame.body),
        )

    def _lower_all(self, body: tuple[Stmt, ...]) -> None:
        for stmt in body:
            self._lower(stmt)

    def _lower_loops(self) -> None:
        for place, loop in enumerate(self._loops):
            self._walk(loop, *self._bounds(place), self._most[place])

    def _bounds(self, loop: int) -> tuple[str, str]:
        """Names of where each part's inner rows begin and end."""
        blocks = self.blocks
        begin, end = (
            blocks.named(
                blocks.inner,
                name,
                f"tl.load({self.args.parts(self.table, name, loop)} + {self._part}, "
                f"mask={blocks.inner.inside}, other=0)",
            )
            for name in ("begin", "end")
        )
        return begin, end

    def _finish(self, rows: TritonFrame) -> None:
        """Finish rows that are whole, and store what others have come to."""
        slot, partial, whole = map(self.args.local, ("slot", "partial", "whole"))
        slots = self.args.parts(self.table, "slot")
        self.blocks.emit(
            TritonLet(slot, f"tl.load({slots} + {self._part}, mask={rows.inside}, other=0)")
        )
        self.blocks.emit(TritonLet(partial, f"{rows.inside} & ({slot} >= 0)"))
        self.blocks.emit(TritonLet(whole, f"{rows.inside} & ({slot} < 0)"))
        for stmt in self.phase.sums:
            total = self.values[stmt.name]
            place, padding = self._place_of(slot, ("n",), stmt)
            mask = " & ".join([lift(partial, ("n",), total.axes), *padding])
            self.blocks.emit(TritonDo(f"tl.store({place}, {total.text}, mask={mask})"))
        rows.inside = whole
        self._lower_all(self.phase.after)

    def _place_of(self, number: str, lanes: tuple[Axis, ...], stmt: Init) -> tuple[str, list[str]]:
        """Pointers to a sum's elements in partial rows, and masks of padding."""
        axes: tuple[Axis, ...] = (*lanes, *row_axes(stmt.shape))
        sums = self.phase.sums
        offset = sum(_room(other) for other in sums[: sums.index(stmt)])
        start = f"{number}.to(tl.int64) * {self.carry.width}" + (f" + {offset}" if offset else "")
        places = [lift(start, lanes, axes), *self.blocks.columns(stmt.shape, axes)]
        place = with_runs(" + ".join(places), axes, stmt.shape)
        return f"{self.args.carry(self.carry)} + {place}", self.blocks.padding(stmt.shape, axes)


class JoinLowering(SharedLowering):
    """The kernel that adds up partial rows, a level at a time."""

    joins = True

    @property
    def _loops(self) -> tuple[ForEach, ...]:
        return self.phase.loops[:1]

    def _lower_loops(self) -> None:
        """One loop, over partial rows: what they have is added, below the larger maximum."""
        begin, end = self._bounds(0)
        step, row = self.args.local("step"), self.args.local("partial")
        frame = TritonFrame(self._loops[0].rows, row, self.args.local("partial_in"), LANES)
        frame.body += [
            TritonLet(row, f"({begin} + {step})[None, :] + tl.arange(0, U)[:, None]"),
            TritonLet(frame.inside, f"{row} < {end}[None, :]"),
        ]
        self.blocks.frames.append(frame)
        weights: dict[str, TritonValue] = {}
        for stmt in self.phase.sums:
            axes: tuple[Axis, ...] = (*LANES, *row_axes(stmt.shape))
            place, padding = self._place_of(row, LANES, stmt)
            mask = " & ".join([lift(frame.inside, LANES, axes), *padding])
            other = LOWEST if stmt.name in self.below else "0.0"
            part = self.args.local(f"{stmt.name}_part")
            self.blocks.emit(TritonLet(part, f"tl.load({place}, mask={mask}, other={other})"))
            term = part
            if stmt.below:
                term = f"{part} * {weights[stmt.below].over(axes)}"
            self._update(stmt.name, TritonValue(term, stmt.shape, axes))
            if stmt.name in self.below:
                weight = self.args.local(f"{stmt.name}_weight")
                top = self.values[stmt.name].over(axes)
                self.blocks.emit(TritonLet(weight, f"tl.exp({part} - {top})"))
                weights[stmt.name] = TritonValue(weight, stmt.shape, axes)
        self.blocks.frames.pop()
        if self.phase.sums:
            self.blocks.emit(TritonFor(step, self._most[0], tuple(frame.body), "U"))


def cut_of(walk: Traversal, phase: Phase, schedule: GpuSchedule) -> Cut:
    """The parts that a Traversal of one phase is shared out in."""
    loops = tuple(loop.rows for loop in phase.loops)
    return Cut(walk.rows, loops, schedule.part_edges, idle=adds_sums_over(walk) is None)


def carried_width(phase: Phase) -> int:
    """Float32 numbers of a partial row."""
    return sum(map(_room, phase.sums))


def _room(stmt: Init) -> int:
    """Numbers that a sum takes of a partial row: rows begin where vectors may."""
    return -(-prod(stmt.shape) // 4) * 4
