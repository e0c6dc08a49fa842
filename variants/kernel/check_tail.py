"""The rules of a `Gemm`'s tail."""

from __future__ import annotations

from math import prod

from hetune.variants.kernel.check_traversal import TraversalCheck
from hetune.variants.kernel.nodes import Apply, Def, Gemm, Read, Stmt, Traversal, Write
from hetune.variants.kernel.walk import product_reads, writes
from hetune.variants.program.nodes import End, Type


class TailCheck(TraversalCheck):
    """Checks the tail of one `Gemm`: straight code over flat rows, the product's among them."""

    def __init__(self, place: str, types: dict[str, Type], gemm: Gemm) -> None:
        super().__init__(place, types, Traversal(gemm.rows, gemm.tail))
        self.gemm = gemm
        self.flat = (gemm.heads * gemm.n,)

    def run(self) -> None:
        """Check it all.

        Raises:
            KernelError: A rule is broken.
        """
        gemm = self.gemm
        if gemm.scatter or gemm.accumulate:
            raise self.error(
                "has a tail, but its rows are parts of sums: walk them in a pass of their own"
            )
        if gemm.only is not End.NONE and not gemm.fill:
            raise self.error(f"has a tail for all rows, but only={gemm.only}: add fill")
        self.enter(gemm.rows)
        self.declare(gemm.out, self.flat, gemm.tail[0])
        for statement in gemm.tail:
            self._statement(statement)
        stored = set(writes(gemm))
        if not stored:
            raise self.error("the tail stores nothing: add a store, or drop it")
        for name, _ in product_reads(gemm):
            if name in stored:
                raise self.error(
                    f"{name!r} is read by the product and stored by its tail: store another buffer"
                )

    def _statement(self, statement: Stmt) -> None:
        match statement:
            case Def(name, shape, Read() as read):
                found = self._read(read, statement)
                if prod(found) != prod(shape):
                    raise self.error(f"the value has row shape {found}: declare as wide", statement)
                self.declare(name, shape, statement)
            case Def(expr=Apply()):
                super()._statement(statement)
            case Write(buffer, value, _):
                type = self.own_row(buffer, self.gemm.rows, statement)
                if self._value(value, statement) != self.flat or (type.width,) != self.flat:
                    raise self.error(f"only rows of width {self.flat[0]} are stored", statement)
            case _:
                raise self.error(
                    "a tail has reads, elementwise functions and stores alone: walk the rows in a "
                    "pass of their own",
                    statement,
                )
        if isinstance(statement, Def) and statement.shape not in ((), self.flat):
            raise self.error(f"rows are flat here: declare {self.flat} or ()", statement)
