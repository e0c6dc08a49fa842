"""A softmax whose scores are single numbers, with the sums that it weights.

All edges of a block have their exponentials side by side, whatever node they lead to. They are of
the scores themselves, not of what they are below a node's maximum: where a score of a block is
beyond 40 in size, the block is done again in three passes.
"""

from __future__ import annotations

from dataclasses import replace

from hetune.variants.backends.cpp.lanes import LaneLoop, row_width
from hetune.variants.backends.cpp.rows import block_range
from hetune.variants.backends.cpp.scopes import Frame
from hetune.variants.backends.cpp.target import Do, Function, If, Scope, Statement
from hetune.variants.backends.cpp.traversal import TraversalLowering
from hetune.variants.backends.describe import describe_traversal
from hetune.variants.kernel.names import Names
from hetune.variants.kernel.nodes import (
    Apply,
    Def,
    EdgeSoftmax,
    ForEach,
    Init,
    Launch,
    Rows,
    ScoreLoop,
    Stmt,
    Traversal,
    Update,
    Write,
)
from hetune.variants.kernel.passes.softmax_forms import from_powers
from hetune.variants.program.nodes import Space


def softmax_across_edges(traversal: Traversal, launch: Launch, lanes: int) -> EdgeSoftmax | None:
    """The softmax of a traversal whose scores vectors so wide hold, those of many edges in one."""
    for statement in traversal.body:
        if isinstance(statement, EdgeSoftmax) and statement.sums and statement.buffer:
            loops = (
                ForEach(part.rows, (*part.body, Write(statement.buffer, part.value)))
                for part in statement.scores
            )
            return statement if all(row_width(loop, {}, launch, lanes) for loop in loops) else None
    return None


class FlatSoftmax(TraversalLowering):
    """Lowers a traversal with such a softmax."""

    def functions(self) -> tuple[Function, ...]:
        """The functions that run a block: the last does if all scores are moderate, and says so."""
        softmax = softmax_across_edges(self.traversal, self.launch, self.schedule.lanes)
        assert softmax is not None
        place = self.traversal.body.index(softmax)
        sums = TraversalLowering(
            replace(self.traversal, body=from_powers(self.traversal.body, place)),
            f"{self.name}_sums",
            self.launch,
            self.schedule,
            self.args,
            self.node_blocked,
            leaves_out_idle=self.leaves_out_idle,
        )
        flat = Function(
            f"{describe_traversal(self.traversal)}, if all scores are moderate",
            f"NOINLINE bool {self.name}_moderate",
            ("const Context& c", "int64_t block"),
            (
                *(Scope(self._powers(part, softmax)) for part in softmax.scores),
                Do(f"{sums.name}(c, block)"),
                Do("return true"),
            ),
        )
        return (*sums.functions(), flat)

    def _powers(self, part: ScoreLoop, softmax: EdgeSoftmax) -> tuple[Statement, ...]:
        """Stores exponentials of scores; returns where not all of them are moderate."""
        names = Names((softmax.name, *(s.name for s in part.body)))
        size, largest, power, total = map(names.fresh, ("size", "largest", "power", "total"))
        body: tuple[Stmt, ...] = (
            *part.body,
            Def(size, softmax.shape, Apply("abs", (part.value,))),
            Update(largest, size),
            Def(power, softmax.shape, Apply("exp", (part.value,))),
            # A maximum forgets what came before a score that is no number; a sum stays none.
            Update(total, power),
            Write(softmax.buffer, power),
        )
        outer = Frame(Rows(Space.SHARED), "")
        self.scopes.frames.append(outer)
        self._declare(Init(largest, softmax.shape, "max"))
        self._declare(Init(total, softmax.shape, "sum"))
        self.scopes.frames.append(Frame(part.rows, "e"))
        width = self.launch.type_of(softmax.buffer).width
        loop = LaneLoop(self.scopes, self.values, self.reductions, width, self.schedule.lanes)
        loop.lower(body, *block_range(self.args, part.rows, self.node_blocked))
        del self.scopes.frames[-2:]
        ((_, most),), ((_, sum_),) = self.values[largest].names, self.values[total].names
        moderate = f"fold_max<float>({most}) <= most_moderate && hsum({sum_}) >= 0.0f"
        return (*outer.body, If(f"!({moderate})", (Do("return false"),)))
