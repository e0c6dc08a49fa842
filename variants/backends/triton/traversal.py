"""Lowers Traversals: a program takes a block of rows, and walks their pairs and edges in step."""

from __future__ import annotations

from hetune.variants.backends.places import VARIABLES
from hetune.variants.backends.triton.arguments import Grid, Hubs
from hetune.variants.backends.triton.blocks import Frame
from hetune.variants.backends.triton.body import BodyLowering, sums_below
from hetune.variants.backends.triton.target import Function, Let
from hetune.variants.errors import KernelError
from hetune.variants.kernel.gpu_schedule import GpuSchedule
from hetune.variants.kernel.nodes import ForEach, Launch, Traversal
from hetune.variants.program.nodes import Space


class TraversalLowering(BodyLowering):
    """Lowers Traversals over the same rows, one after the other, into one kernel."""

    def __init__(
        self,
        traversals: tuple[Traversal, ...],
        name: str,
        launch: Launch,
        schedule: GpuSchedule,
        *,
        hubs: bool = False,
    ) -> None:
        super().__init__(traversals, name, launch)
        if self.rows.space not in VARIABLES:
            raise KernelError(
                f"a Traversal cannot walk {self.rows.space} rows: nodes, pairs or edges"
            )
        # In flight are edges of inner loops; rows of an outermost loop lie side by side anyway.
        has_loops = any(isinstance(s, ForEach) for t in traversals for s in t.body)
        self.edges = schedule.edges if has_loops else 1
        self.size = schedule.rows_of_walk(self.width, has_loops)
        walks_nodes = self.rows.space is Space.NODE and has_loops
        self.ordered = schedule.degree_order and walks_nodes
        self.hubs = Hubs(schedule.hub_edges) if schedule.hub_edges and self.ordered else None
        self.hubs_only = hubs
        if hubs:
            self.size, self.edges = 1, schedule.edges_of_hub(self.width)

    @property
    def grid(self) -> Grid:
        """A program for each block of rows."""
        rows = self.hubs if self.hubs is not None and self.hubs_only else self.rows
        return Grid(rows, self.size)

    def function(self) -> Function:
        """The kernel."""
        args, variable = self.args, self.args.local(VARIABLES[self.rows.space])
        frame = Frame(self.rows, variable, args.local(f"{variable}_in"), ("n",))
        start = f"tl.program_id(0) * {self.size} + tl.arange(0, {self.size})"
        place = args.local("i") if self.ordered else variable
        hubs = "" if self.hubs is None else args.count(self.hubs)
        if hubs and not self.hubs_only:
            start = f"{hubs} + {start}"
        stop = hubs if self.hubs_only else args.count(self.rows)
        head = [Let(place, start), Let(frame.inside, f"{place} < {stop}")]
        if self.ordered:
            order = args.index("", "degree_order")
            head.append(Let(variable, f"tl.load({order} + {place}, mask={frame.inside}, other=0)"))
        self.blocks.frames.append(frame)
        for traversal in self.traversals:
            self.values.clear()
            self.below = sums_below(traversal)
            for stmt in traversal.body:
                self._lower(stmt)
        body = (*head, *self.blocks.top, *frame.body)
        return self._printed(body, "Hubs alone." if self.hubs_only else "")
