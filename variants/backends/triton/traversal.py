"""Lowers Traversals: a program takes a block of rows, and walks their inner rows in step."""

from __future__ import annotations

from hetune.variants.backends.places import VARIABLES
from hetune.variants.backends.triton.arguments import Grid
from hetune.variants.backends.triton.blocks import TritonFrame
from hetune.variants.backends.triton.body import BodyLowering, sums_below
from hetune.variants.backends.triton.target import TritonFunction, TritonLet
from hetune.variants.kernel.gpu_schedule import GpuSchedule
from hetune.variants.kernel.nodes import Launch, Traversal


class TritonTraversalLowering(BodyLowering):
    """Lowers Traversals over the same rows, one after the other, into one kernel."""

    def __init__(
        self, traversals: tuple[Traversal, ...], name: str, launch: Launch, schedule: GpuSchedule
    ) -> None:
        super().__init__(traversals, name, launch)
        self.size = schedule.rows_of_walk(self.width)
        self.extents = {"n": str(self.size)}
        self.elements = self.size * self.width

    @property
    def grid(self) -> Grid:
        """A program for each block of rows."""
        return Grid(self.rows, self.size)

    def function(self) -> TritonFunction:
        """The kernel."""
        args, variable = self.args, self.args.local(VARIABLES[self.rows.space])
        frame = TritonFrame(self.rows, variable, args.local(f"{variable}_in"), ("n",))
        head = (
            TritonLet(variable, f"tl.program_id(0) * {self.size} + tl.arange(0, {self.size})"),
            TritonLet(frame.inside, f"{variable} < {args.count(self.rows)}"),
        )
        self.blocks.frames.append(frame)
        for traversal in self.traversals:
            self.values.clear()
            self.below = sums_below(traversal)
            for stmt in traversal.body:
                self._lower(stmt)
        return self._printed((*head, *self.blocks.top, *frame.body))
