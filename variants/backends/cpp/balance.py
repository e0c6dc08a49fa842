"""Lowers a Traversal whose work is shared out by edges, so that hubs do not hold up the others.

Edges are cut into chunks of one size. A chunk owns the nodes whose first edge lies in it; sums of
nodes that reach over a chunk's end go to a carry buffer, from where they are added up in order.
"""

from __future__ import annotations

from hetune.variants.backends.cpp.abi import Arguments
from hetune.variants.backends.cpp.pieces import at
from hetune.variants.backends.cpp.rows import Shares
from hetune.variants.backends.cpp.target import (
    Assign,
    Comment,
    Do,
    Function,
    If,
    Let,
    Statement,
    While,
)
from hetune.variants.backends.cpp.target import For as Loop
from hetune.variants.backends.cpp.traversal import TraversalLowering
from hetune.variants.backends.describe import describe_traversal
from hetune.variants.errors import KernelError
from hetune.variants.kernel.nodes import (
    Def,
    ForEach,
    Init,
    Launch,
    Rows,
    Schedule,
    Stmt,
    Store,
    Traversal,
    Update,
)
from hetune.variants.program.nodes import Space

CHUNK_EDGES = 2048
"""Edges per chunk; it does not depend on the number of threads, so neither do sums."""

_CONTEXT = ("const Context& c", "int64_t n")


def supports_edge_balance(launch: Launch) -> bool:
    """Whether the launch is one Traversal over nodes, with sums over edges and what follows."""
    if len(launch.kernels) != 1:
        return False
    (kernel,) = launch.kernels
    if not isinstance(kernel, Traversal) or kernel.rows.space is not Space.NODE:
        return False
    loops = [stmt for stmt in kernel.body if isinstance(stmt, ForEach)]
    if len(loops) != 1 or loops[0].rows.space is not Space.EDGE:
        return False
    before = kernel.body[: kernel.body.index(loops[0])]
    inside = all(isinstance(stmt, Def | Update | Store) for stmt in loops[0].body)
    return inside and all(isinstance(stmt, Def | Init) for stmt in before)


class EdgeBalancedLowering:
    """Lowers such a Traversal.

    Raises:
        KernelError: `supports_edge_balance` denies it.
    """

    def __init__(self, launch: Launch, name: str, schedule: Schedule, arguments: Arguments) -> None:
        if not supports_edge_balance(launch):
            raise KernelError(
                "balance=edge needs a launch of one Traversal over nodes with one loop over edges, "
                "which has no loops or sums of its own: use balance=node"
            )
        (kernel,) = launch.kernels
        assert isinstance(kernel, Traversal)
        self.traversal = kernel
        self.launch = launch
        self.name = name
        self.schedule = schedule
        self.args = arguments
        at = next(i for i, stmt in enumerate(kernel.body) if isinstance(stmt, ForEach))
        self.before, self.after = kernel.body[:at], kernel.body[at + 1 :]
        loop = kernel.body[at]
        assert isinstance(loop, ForEach)
        self.loop = loop
        self.sums = tuple(stmt for stmt in self.before if isinstance(stmt, Init))

    @property
    def _width(self) -> int:
        """Floats that a node's sums take."""
        widths = (self._width_of(stmt) for stmt in self.sums)
        return max(1, sum(widths))

    @staticmethod
    def _width_of(stmt: Init) -> int:
        width = 1
        for extent in stmt.shape:
            width *= extent
        return width

    @property
    def shares(self) -> Shares:
        """How blocks are counted, and what they need."""
        edges = self.args.count(Rows(Space.EDGE, self.loop.rows.group))
        return Shares(
            blocks=f"maximum<int64_t>(1, ({edges} + {CHUNK_EDGES - 1}) / {CHUNK_EDGES})",
            carry_width=2 * self._width,
            join=f"{self.name}_join",
        )

    def functions(self) -> tuple[Function, ...]:
        """Functions in the order of their definition."""
        return self._sum(), self._finish(), self._chunk(), self._add(), self._join()

    def _lowering(self) -> TraversalLowering:
        return TraversalLowering(
            self.traversal, self.name, self.launch, self.schedule, self.args, True
        )

    def _sum(self) -> Function:
        lowering = self._lowering()
        body: tuple[Stmt, ...] = (*self.before, self.loop)
        statements = lowering.node_body(body, ("begin", "end"))
        offset = 0
        stores: list[Statement] = []
        for stmt in self.sums:
            for piece, text in lowering.values[stmt.name].names:
                place = at("sums", offset + piece.offset)
                stores.append(Do(f"store<{piece.type}>({place}, {text})"))
            offset += self._width_of(stmt)
        described = describe_traversal(self.traversal)
        return Function(
            f"{described}: sums over edges from begin to end, in a chunk up to last",
            f"NOINLINE void {self.name}_sum",
            (*_CONTEXT, "int64_t begin", "int64_t end", "int64_t last", "float* sums"),
            (*statements, *stores),
        )

    def _finish(self) -> Function:
        lowering = self._lowering()
        offset, given = 0, {}
        for stmt in self.sums:
            given[stmt.name] = at("sums", offset)
            offset += self._width_of(stmt)
        statements = lowering.node_body((*self.before, *self.after), None, given)
        return Function(
            f"{self.name}: what follows a node's sums",
            f"NOINLINE void {self.name}_finish",
            (*_CONTEXT, "const float* sums"),
            statements,
        )

    @property
    def _indptr(self) -> str:
        return self.args.index(self.loop.rows.group, "indptr")

    def _chunk(self) -> Function:
        nodes, indptr = self.args.count(Rows(Space.NODE)), self._indptr
        width, name = self._width, self.name
        body: list[Statement] = [
            Let("const bool", "is_last", "block + 1 == blocks"),
            Let("const int64_t", "first", f"block * {CHUNK_EDGES}"),
            Let("const int64_t", "stop", f"is_last ? {indptr}[{nodes}] : first + {CHUNK_EDGES}"),
            Let("int64_t", "n", f"lower_bound({indptr}, {nodes} + 1, first)"),
            If(
                f"n > 0 && {indptr}[n] > first",
                (
                    Comment("the end, or all, of this chunk belongs to a node that began before"),
                    Let("const int64_t", "end", f"minimum<int64_t>({indptr}[n], stop)"),
                    Do(f"{name}_sum(c, n - 1, first, end, stop - 1, carry + block * {2 * width})"),
                ),
            ),
            While(
                f"n < {nodes} && (is_last || {indptr}[n] < stop)",
                (
                    Let("const int64_t", "begin", f"{indptr}[n]"),
                    Let("const int64_t", "end", f"{indptr}[n + 1]"),
                    If(
                        "end > stop",
                        (
                            Do(
                                f"{name}_sum(c, n, begin, stop, stop - 1, "
                                f"carry + block * {2 * width} + {width})"
                            ),
                        ),
                        (
                            Let("alignas(64) float", f"sums[{width}]"),
                            Do(f"{name}_sum(c, n, begin, end, stop - 1, sums)"),
                            Do(f"{name}_finish(c, n, sums)"),
                        ),
                    ),
                    Assign("n", "1", "+="),
                ),
            ),
        ]
        return Function(
            f"{name}: the nodes that begin in a chunk of edges",
            f"NOINLINE void {name}",
            ("const Context& c", "int64_t block", "int64_t blocks", "float* carry"),
            tuple(body),
        )

    def _add(self) -> Function:
        body: list[Statement] = []
        offset = 0
        for stmt in self.sums:
            width = self._width_of(stmt)
            term = "part[i]"
            target = "sums[i]"
            value = f"{target} + {term}" if stmt.reduce == "sum" else f"maximum({target}, {term})"
            body.append(
                Loop("int", "i", f"{offset}", f"{offset + width}", (Assign(target, value),))
            )
            offset += width
        return Function(
            f"{self.name}: adds the sums of another part of a node's edges",
            f"static inline void {self.name}_add",
            ("float* sums", "const float* part"),
            tuple(body),
        )

    def _join(self) -> Function:
        nodes, indptr = self.args.count(Rows(Space.NODE)), self._indptr
        width, name = self._width, self.name
        body: tuple[Statement, ...] = (
            Loop(
                "int64_t",
                "block",
                "0",
                "blocks - 1",
                (
                    Let("const int64_t", "stop", f"(block + 1) * {CHUNK_EDGES}"),
                    Let("const int64_t", "n", f"lower_bound({indptr}, {nodes} + 1, stop) - 1"),
                    Let("const int64_t", "end", f"{indptr}[n + 1]"),
                    If(
                        f"{indptr}[n] >= stop - {CHUNK_EDGES} && end > stop",
                        (
                            Let("float*", "sums", f"carry + block * {2 * width} + {width}"),
                            Loop(
                                "int64_t",
                                "next",
                                "block + 1",
                                f"(end + {CHUNK_EDGES - 1}) / {CHUNK_EDGES}",
                                (Do(f"{name}_add(sums, carry + next * {2 * width})"),),
                            ),
                            Do(f"{name}_finish(c, n, sums)"),
                        ),
                    ),
                ),
            ),
        )
        return Function(
            f"{name}: nodes whose edges lie in several chunks, added up in order",
            f"static inline void {name}_join",
            ("const Context& c", "int64_t blocks", "float* carry"),
            body,
        )
