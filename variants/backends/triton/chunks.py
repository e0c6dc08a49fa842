"""Lowers Traversals whose work is shared out by edges, so that degrees make no difference.

A program takes a chunk of edges, all chunks of one size, and reduces each node's part of it by a
segmented scan. Nodes whose edges all lie in the chunk are finished there. The parts of others go to
memory that two kernels share, from where the second adds them up in order: nothing is atomic, and
the same run gives the same bits. A third kernel finishes the nodes without edges.
"""

from __future__ import annotations

from math import prod

from hetune.variants.backends.places import node_array, segment_array
from hetune.variants.backends.triton.arguments import CarrySlot, Grid
from hetune.variants.backends.triton.blocks import Frame
from hetune.variants.backends.triton.body import LOWEST, BodyLowering, sums_below
from hetune.variants.backends.triton.target import Do, For, Function, Let, Statement
from hetune.variants.backends.triton.values import Axis, Value, lift, row_axes
from hetune.variants.kernel.gpu_schedule import MOST_EDGES, GpuSchedule
from hetune.variants.kernel.nodes import (
    ForEach,
    Init,
    Launch,
    Rows,
    Stmt,
    Traversal,
)
from hetune.variants.kernel.passes.edge_chunks import part_width
from hetune.variants.kernel.widths import power_of_two
from hetune.variants.program.nodes import End, Space

_NODES = Rows(Space.NODE)


class _PartLowering(BodyLowering):
    """What the three kernels of a Traversal share."""

    def __init__(
        self, traversal: Traversal, name: str, launch: Launch, schedule: GpuSchedule, suffix: str
    ) -> None:
        super().__init__((traversal,), f"{name}_{suffix}", launch)
        place = next(i for i, s in enumerate(traversal.body) if isinstance(s, ForEach))
        loop = traversal.body[place]
        assert isinstance(loop, ForEach)
        self.before, self.loop, self.after = (
            traversal.body[:place],
            loop.body,
            traversal.body[place + 1 :],
        )
        self.edge_rows = loop.rows
        self.below = sums_below(traversal)
        self.totals = tuple(stmt for stmt in self.before if isinstance(stmt, Init))
        self.chunk = schedule.edges_of_chunk(self.width)
        self._carry = CarrySlot(f"{name} parts", loop.rows, self.chunk, part_width(traversal))
        self._carried = self._carry.width // 2
        self._begin, self._end = self.args.local("begin"), self.args.local("end")

    def _frame(self, inside: str) -> Frame:
        """The loop over nodes, of which each lane has one."""
        frame = Frame(_NODES, self.args.local("n"), self.args.local(inside), ("n",))
        self.blocks.frames.append(frame)
        return frame

    def _node_of(self, edge: str, mask: str) -> list[Statement]:
        """The node that an edge leads to, and its edges."""
        node = node_array(self.args, self.edge_rows, End.DST)
        found = Let(self.blocks.inner.variable, f"tl.load({node} + {edge}, mask={mask}, other=0)")
        return [found, *self._edges_of(mask)]

    def _edges_of(self, mask: str) -> list[Statement]:
        pointer = segment_array(self.args, _NODES, self.edge_rows)
        node = self.blocks.inner.variable
        return [
            Let(self._begin, f"tl.load({pointer} + {node}, mask={mask}, other=0)"),
            Let(self._end, f"tl.load({pointer} + {node} + 1, mask={mask}, other=0)"),
        ]

    def _lower_all(self, body: tuple[Stmt, ...]) -> None:
        for stmt in body:
            self._lower(stmt)

    def _part(self, number: str, lanes: tuple[Axis, ...], stmt: Init) -> tuple[str, list[str]]:
        """Pointers to a total's elements in parts of such numbers, and masks of padding."""
        axes: tuple[Axis, ...] = (*lanes, *row_axes(stmt.shape))
        before = self.totals[: self.totals.index(stmt)]
        offset = sum(prod(other.shape) for other in before)
        start = f"{number}.to(tl.int64) * {self._carried}" + (f" + {offset}" if offset else "")
        places = [self.args.carry(self._carry), lift(start, lanes, axes)]
        places += self.blocks.columns(stmt.shape, axes)
        return " + ".join(places), self.blocks.padding(stmt.shape, axes)

    def _load_part(self, number: str, inside: str, lanes: tuple[Axis, ...], stmt: Init) -> Value:
        """A total of other chunks' parts, or what adds nothing to it."""
        axes: tuple[Axis, ...] = (*lanes, *row_axes(stmt.shape))
        place, padding = self._part(number, lanes, stmt)
        mask = " & ".join([lift(inside, lanes, axes), *padding])
        neutral = "0.0" if stmt.reduce == "sum" else 'float("-inf")'
        neutral = LOWEST if stmt.name in self.below else neutral
        return Value(f"tl.load({place}, mask={mask}, other={neutral})", stmt.shape, axes)


class ChunkLowering(_PartLowering):
    """The kernel that reduces the edges of each chunk: a lane of it has an edge and its node."""

    def __init__(
        self, traversal: Traversal, name: str, launch: Launch, schedule: GpuSchedule
    ) -> None:
        super().__init__(traversal, name, launch, schedule, "chunks")
        self.size = self.chunk
        self._first, self._last = self.args.local("first"), self.args.local("last")

    @property
    def grid(self) -> Grid:
        """A program for each chunk."""
        return Grid(self.edge_rows, self.chunk)

    def function(self) -> Function:
        """The kernel."""
        nodes, size = self._frame("e_in"), self.size
        start, edge = self.args.local("start"), self.args.local("e")
        begin, end, inside = self._begin, self._end, nodes.inside
        head = [
            Let(start, f"tl.program_id(0) * {size}"),
            Let(edge, f"{start} + tl.arange(0, {size})"),
            Let(inside, f"{edge} < {self.args.count(self.edge_rows)}"),
            *self._node_of(edge, inside),
            Let(self._first, f"{edge} == tl.maximum({begin}, {start})"),
            # Of the last edge that there may be int32 holds the number, but not of one behind it.
            Let(self._last, f"{edge} == tl.minimum({end} - 1, {start} + {size - 1})"),
        ]
        self._lower_all(self.before)
        edges = Frame(self.edge_rows, edge, inside, ("n",), body=nodes.body)
        self.blocks.frames.append(edges)
        self._lower_all(self.loop)
        self.blocks.frames.pop()
        self.blocks.close(edges)
        self._finish(nodes, start)
        return self._printed((*head, *self.blocks.top, *nodes.body), "By chunks of edges.")

    def _finish(self, nodes: Frame, start: str) -> None:
        """Store what the chunk has of a node, once: its result, or a part for `JoinLowering`."""
        whole, part = self.args.local("whole"), self.args.local("part")
        begins = f"({self._begin} >= {start})"
        inside = f"{nodes.inside} & {self._last}"
        complete = f"{begins} & ({self._end} - {start} <= {self.size})"
        self.blocks.emit(Let(whole, f"{inside} & {complete}"))
        self.blocks.emit(Let(part, f"tl.program_id(0) * 2 + {begins}.to(tl.int32)"))
        partial = self.args.local("partial")
        self.blocks.emit(Let(partial, f"{inside} & (~{whole})"))
        for stmt in self.totals:
            total = self.values[stmt.name]
            place, padding = self._part(part, ("n",), stmt)
            mask = " & ".join([lift(partial, ("n",), total.axes), *padding])
            self.blocks.emit(Do(f"tl.store({place}, {total.text}, mask={mask})"))
        nodes.inside = whole
        self._lower_all(self.after)

    def _update(self, name: str, value: Value) -> None:
        """Add up each node's edges from its first one on; the last one then has the sum.

        A running maximum is needed at all of them: it is found from both sides.
        """
        total, inside = self.values[name], self.blocks.inner.inside
        axes = total.axes
        neutral = "0.0" if self.reductions[name] == "sum" else 'float("-inf")'
        term = Value(value.text, total.shape, value.axes).over(axes)
        term = f"tl.where({lift(inside, ('n',), axes)}, {term}, {neutral})"
        term = self.blocks.named(self.blocks.inner, f"{name}_term", term)
        adds = self.reductions[name] == "sum"
        found = self._scan(term, total, self._first, "add_segments" if adds else "max_segments")
        if adds:
            self.blocks.emit(Let(total.text, f"{total.text} + {found}"))
            return
        if name in self.below:
            back = self._scan(term, total, self._last, "max_segments", ", reverse=True")
            found = f"tl.maximum({found}, {back})"
        self.blocks.emit(Let(total.text, f"tl.maximum({total.text}, {found})"))

    def _scan(self, term: str, total: Value, marks: str, combine: str, how: str = "") -> str:
        """A name for each lane's reduction of all lanes since the last marked one."""
        self.helpers.add(combine)
        extents = [total.shape[axis] for axis in total.axes if isinstance(axis, int)]
        sizes = [self.size, *(power_of_two(extent) for extent in extents)]
        marked = lift(f"{marks}.to(tl.int32)", ("n",), total.axes)
        marked = self.blocks.named(
            self.blocks.inner, f"{marks}_marks", f"tl.broadcast_to({marked}, {sizes})"
        )
        scan = self.args.local("scan")
        self.blocks.emit(Let(scan, f"tl.associative_scan(({marked}, {term}), 0, {combine}{how})"))
        return f"{scan}[1]"


class JoinLowering(_PartLowering):
    """The kernel that adds up nodes whose edges lie in several chunks: by the first of these."""

    def __init__(
        self, traversal: Traversal, name: str, launch: Launch, schedule: GpuSchedule
    ) -> None:
        super().__init__(traversal, name, launch, schedule, "join")
        self.edges = min(MOST_EDGES, self.chunk)
        self._chunk = self.args.local("chunk")

    @property
    def grid(self) -> Grid:
        """A program for each chunk."""
        return Grid(self.edge_rows, self.chunk)

    def function(self) -> Function:
        """The kernel."""
        nodes, chunk = self._frame("n_in"), self._chunk
        last, more = self.args.local("last"), self.args.local("more")
        others, most = self.args.local("others"), self.args.local("most")
        reaches = f"({self._begin} > {last} - {self.chunk}) & ({self._end} - 1 > {last})"
        count = f"({self._end} - 1) // {self.chunk} - {chunk}"
        head = [
            Let(chunk, "tl.program_id(0) + tl.arange(0, 1)"),
            Let(last, f"{chunk} * {self.chunk} + {self.chunk - 1}"),
            Let(more, f"{last} < {self.args.count(self.edge_rows)} - 1"),
            *self._node_of(last, more),
            Let(nodes.inside, f"{more} & {reaches}"),
            Let(others, f"tl.where({nodes.inside}, {count}, 0)"),
            Let(most, f"tl.max({others}, axis=0)"),
        ]
        self._lower_all(self.before)
        self._add_others(others, most)
        self._lower_all(self.after)
        return self._printed((*head, *self.blocks.top, *nodes.body), "What chunks have in parts.")

    def _declare(self, stmt: Init) -> None:
        """Begin with the first chunk's part, which is its second: the first is another node's."""
        super()._declare(stmt)
        part = self._load_part(f"({self._chunk} * 2 + 1)", self.blocks.inner.inside, ("n",), stmt)
        self.blocks.emit(Let(self.values[stmt.name].text, part.text))

    def _add_others(self, others: str, most: str) -> None:
        step, other = self.args.local("step"), self.args.local("other")
        lanes: tuple[Axis, ...] = ("n", "u")
        frame = Frame(self.edge_rows, other, self.args.local("other_in"), lanes)
        frame.body += [
            Let(other, f"{step} + tl.arange(0, {self.edges})[None, :]"),
            Let(frame.inside, f"{other} < {others}[:, None]"),
        ]
        self.blocks.frames.append(frame)
        number = f"(({self._chunk}[:, None] + 1 + {other}) * 2)"
        weights: dict[str, Value] = {}
        for stmt in self.totals:
            part = self._load_part(number, frame.inside, lanes, stmt)
            name = self.args.local(f"{stmt.name}_part")
            self.blocks.emit(Let(name, part.text))
            part = Value(name, part.shape, part.axes)
            if stmt.below:
                weight = weights[stmt.below].over(part.axes)
                part = Value(f"{name} * {weight}", part.shape, part.axes)
            self._update(stmt.name, part)
            if stmt.name in self.below:
                weight = self.args.local(f"{stmt.name}_weight")
                top = self.values[stmt.name].over(part.axes)
                self.blocks.emit(Let(weight, f"tl.exp({name} - {top})"))
                weights[stmt.name] = Value(weight, part.shape, part.axes)
        self.blocks.frames.pop()
        self.blocks.emit(For(step, most, tuple(frame.body), self.edges))


class IdleLowering(_PartLowering):
    """The kernel that finishes the nodes to which no edge leads."""

    def __init__(
        self, traversal: Traversal, name: str, launch: Launch, schedule: GpuSchedule
    ) -> None:
        super().__init__(traversal, name, launch, schedule, "idle")
        self.size = schedule.rows_of_walk(self.width, has_loops=False)

    @property
    def grid(self) -> Grid:
        """A program for each block of nodes."""
        return Grid(_NODES, self.size)

    def function(self) -> Function:
        """The kernel."""
        nodes, known = self._frame("n_in"), self.args.local("known")
        head = [
            Let(nodes.variable, f"tl.program_id(0) * {self.size} + tl.arange(0, {self.size})"),
            Let(known, f"{nodes.variable} < {self.args.count(_NODES)}"),
            *self._edges_of(known),
            Let(nodes.inside, f"{known} & ({self._begin} == {self._end})"),
        ]
        self._lower_all((*self.before, *self.after))
        return self._printed((*head, *self.blocks.top, *nodes.body), "Those without edges.")
