"""What a Gemm does with its rows before it stores them: a function that finishes one row."""

from __future__ import annotations

from hetune.variants.backends.cpp.abi import Arguments
from hetune.variants.backends.cpp.target import Do, Function
from hetune.variants.backends.cpp.traversal import TraversalLowering
from hetune.variants.backends.places import VARIABLES
from hetune.variants.kernel.nodes import (
    Def,
    Element,
    Gemm,
    Launch,
    Read,
    Schedule,
    Traversal,
    Write,
)


class Tail:
    """Lowers the tail of one Gemm."""

    def __init__(
        self, gemm: Gemm, name: str, launch: Launch, schedule: Schedule, arguments: Arguments
    ) -> None:
        self.gemm = gemm
        self.name = f"{name}_finish"
        self.launch = launch
        walk = Traversal(gemm.rows, gemm.tail)
        self._walk = TraversalLowering(walk, name, launch, schedule, arguments, False)

    @property
    def _width(self) -> int:
        return self.gemm.heads * self.gemm.n

    def function(self) -> Function:
        """The function that finishes a row."""
        return Function(
            f"{self.name}: what becomes of a row of {self.gemm.out}",
            f"static inline void {self.name}",
            ("const Context& c", f"int64_t {VARIABLES[self.gemm.rows.space]}", "const float* row"),
            self._walk.row_body(self.gemm.out, self._width),
        )

    def call(self, number: str, row: str) -> Do:
        """Finishes a row: its number, and where it lies."""
        return Do(f"{self.name}(c, {number}, {row})")

    def touched(self) -> tuple[tuple[str, bool], ...]:
        """Buffers of rows as wide that it reads or writes at its own row, and which it writes.

        Scratch is in cache, and left out; so are rows of bfloat16, which are written once.
        """
        found: dict[str, bool] = {}
        for statement in self.gemm.tail:
            match statement:
                case Def(expr=Read(buffer)) if self._is_alike(buffer):
                    found.setdefault(buffer, False)
                case Write(buffer):
                    found[buffer] = True
        lasting = {name: writes for name, writes in found.items() if not self._is_apart(name)}
        return tuple(lasting.items())

    def _is_apart(self, name: str) -> bool:
        buffer = self.launch.buffer(name)
        return bool(buffer.scratch) or buffer.element is Element.BFLOAT16

    def _is_alike(self, buffer: str) -> bool:
        kind, rows = self.launch.type_of(buffer), self.gemm.rows
        return (kind.space, kind.group, kind.width) == (rows.space, rows.group, self._width)
