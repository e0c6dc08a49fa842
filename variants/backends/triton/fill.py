"""Lowers what a Gemm with ``fill`` writes where nodes have no edge."""

from __future__ import annotations

from hetune.variants.backends.describe import describe_written
from hetune.variants.backends.triton.arguments import Grid, IdleNodesSlot, TritonArguments
from hetune.variants.backends.triton.tail import Tile, lower_tail
from hetune.variants.backends.triton.target import (
    TritonDo,
    TritonFunction,
    TritonLet,
    TritonStatement,
    assigned,
)
from hetune.variants.kernel.nodes import Gemm, Launch
from hetune.variants.kernel.widths import power_of_two
from hetune.variants.program.nodes import Space

_FILLED = 1024
"""Elements that a program fills."""


class FillLowering:
    """Lowers what a Gemm with ``fill`` writes where nodes have no edge: its bias, or 0."""

    def __init__(self, gemm: Gemm, name: str, launch: Launch) -> None:
        self.gemm = gemm
        self.name = name
        self.launch = launch
        self.args = TritonArguments(launch)
        self.helpers: set[str] = set()
        self.width = gemm.heads * gemm.n
        self.columns = min(power_of_two(self.width), _FILLED)
        self.size = _FILLED // self.columns

    @property
    def grid(self) -> Grid:
        """A program for each block of nodes and of columns."""
        return Grid(IdleNodesSlot(self.gemm.only), self.size, -(-self.width // self.columns))

    def function(self) -> TritonFunction:
        """The kernel."""
        args, gemm = self.args, self.gemm
        nodes = args.idle_nodes(gemm.only)
        column = f"tl.arange(0, {self.columns})"
        if self.columns < self.width:
            column = f"tl.program_id(1) * {self.columns} + {column}"
        body: list[TritonStatement] = [
            TritonLet("i", f"tl.program_id(0) * {self.size} + tl.arange(0, {self.size})"),
            TritonLet("row_in", f"i < {args.count(IdleNodesSlot(gemm.only))}"),
            TritonLet("row", f"tl.load({nodes} + i, mask=row_in, other=0)"),
            TritonLet("column", column),
            TritonLet("inside", f"row_in[:, None] & (column < {self.width})[None, :]"),
        ]
        body += self._value()
        body += self._stored(body)
        return TritonFunction(
            self.name,
            f"{describe_written(gemm)} at nodes without an edge at {gemm.only}.",
            args.typed_pointers(),
            tuple(name for _, name in args.counts),
            tuple(body),
        )

    def _value(self) -> list[TritonStatement]:
        """What a zero operand gives."""
        args, bias = self.args, self.gemm.bias
        if bias is None:
            shape = f"[{self.size}, {self.columns}]"
            return [TritonLet("value", f"tl.zeros({shape}, tl.float32)")] if self.gemm.tail else []
        body: list[TritonStatement] = []
        place = f"{args.buffer(bias)} + column[None, :]"
        if self.launch.type_of(bias).space is Space.NTYPE:
            kind = f"tl.load({args.node_types()} + row, mask=row_in, other=0)"
            body.append(TritonLet("kind", kind))
            place += f" + kind[:, None] * {self.width}"
        else:
            place += " + row[:, None] * 0"
        return [*body, TritonLet("value", f"tl.load({place}, mask=inside, other=0.0)")]

    def _stored(self, before: list[TritonStatement]) -> list[TritonStatement]:
        args, gemm = self.args, self.gemm
        if gemm.tail:
            args.reserve(assigned(before))
            bound = f"column < {self.width}" if self.width % self.columns else ""
            tail, self.helpers = lower_tail(gemm, Tile("value", "column", bound), self.launch, args)
            return tail
        value = "0.0" if gemm.bias is None else "value"
        start = f"{args.buffer(gemm.out)} + row.to(tl.int64)[:, None] * {self.width}"
        return [TritonDo(f"tl.store({start} + column[None, :], {value}, mask=inside)")]
