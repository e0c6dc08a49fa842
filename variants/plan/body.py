"""Building a loop body: which values are computed there, and which are read."""

from __future__ import annotations

from hetune.variants.kernel.nodes import (
    Apply,
    Def,
    Expr,
    FoldAxis,
    ForEach,
    Inner,
    Read,
    Rows,
    Stmt,
)
from hetune.variants.plan.context import Context
from hetune.variants.program.nodes import Dot, End, Fold, Map, Reshape, Take


class Body:
    """The statements of one loop under construction."""

    def __init__(self, lowering: Context, rows: Rows, outer: Body | None = None) -> None:
        self.rows = rows
        self.statements: list[Stmt] = []
        self._lowering = lowering
        self._known: dict[str, str] = {}
        self._taken: set[str] = outer._taken if outer else set()

    def add(self, statement: Stmt) -> None:
        """Appends a statement."""
        self.statements.append(statement)

    def inner(self, rows: Rows) -> Body:
        """A loop inside this one; `loop` closes it."""
        return Body(self._lowering, rows, self)

    def loop(self, inner: Body) -> None:
        """Appends a finished inner loop."""
        self.add(ForEach(inner.rows, tuple(inner.statements)))

    def value(self, name: str, *, inline: bool = False) -> str:
        """A local name for the current row of a program value.

        ``inline`` computes the value here even if it would rather be read from a buffer.
        """
        if name in self._known:
            return self._known[name]
        lowering = self._lowering
        shape = lowering.types[name].shape
        match lowering.ops.get(name):
            case Take(x=x, end=end) if name not in lowering.given or lowering.types[name].group:
                local = self.define(name, shape, Read(lowering.buffer(x), end))
            case Reshape():
                local = self.define(name, shape, Read(lowering.buffer(name)))
            case Map(fn=fn, args=args, const=const) if inline or self._inlines(name):
                names = tuple(self.value(a) for a in args)
                local = self.define(name, shape, Apply(fn, names, const))
            case Dot(x=x, y=y) if inline or self._inlines(name):
                local = self.define(name, shape, Inner(self.value(x), self.value(y)))
            case Fold(x=x, axis=axis, fn=fn) if inline or self._inlines(name):
                local = self.define(name, shape, FoldAxis(self.value(x), axis, fn))
            case _:
                local = self.define(name, shape, Read(lowering.buffer(name), End.NONE))
        self._known[name] = local
        return local

    def total(self, names: list[str], shape: tuple[int, ...], start: str | None = None) -> str:
        """A local name for the sum of values (after ``start``, a local name)."""
        total = start
        for name in names:
            value = self.value(name)
            if total is None:
                total = value
            else:
                total = self.define(f"{name}_plus", shape, Apply("add", (total, value)))
        assert total is not None
        return total

    def _inlines(self, name: str) -> bool:
        """Cheap values are computed again wherever they are used; products of rows are not."""
        lowering = self._lowering
        space = lowering.types[name].space
        if space.is_weight or name in lowering.given:
            return False
        if space is not self.rows.space or lowering.accumulates(name):
            return False
        return isinstance(lowering.ops[name], Map) or lowering.only_user(name)

    def define(self, name: str, shape: tuple[int, ...], expr: Expr) -> str:
        """Appends a definition; its local name is like ``name``."""
        local, count = name, 1
        while local in self._taken:
            count += 1
            local = f"{name}_{count}"
        self._taken.add(local)
        self.add(Def(local, shape, expr))
        return local
