"""The rules of a `Traversal`."""

from __future__ import annotations

from hetune.variants.kernel.check import NAME, NODE_ENDS, Check
from hetune.variants.kernel.nodes import (
    Apply,
    Def,
    Expr,
    ForEach,
    Init,
    Inner,
    Read,
    Rows,
    Stmt,
    Store,
    Traversal,
    Update,
)
from hetune.variants.kernel.text import show_rows, show_type
from hetune.variants.kernel.walk import statements, writes
from hetune.variants.program.nodes import End, Space, Type

REDUCTIONS = ("sum", "max")


class _Scope:
    """The names of one loop."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.accumulators: set[str] = set()
        self.maxima: set[str] = set()
        self.running: set[str] = set()
        """Maxima that sums are below."""
        self.grown: set[str] = set()
        """Accumulators that the loop has updated for this row."""


class TraversalCheck(Check):
    """Checks one `Traversal`."""

    def __init__(self, place: str, types: dict[str, Type], traversal: Traversal) -> None:
        super().__init__(place, types)
        self.traversal = traversal
        self.scopes: list[_Scope] = []
        self.partial: set[str] = set()
        """Accumulators that the loops we are in are still adding to."""

    def run(self) -> None:
        """Check it all.

        Raises:
            KernelError: A rule is broken.
        """
        self.rows(self.traversal.rows)
        self._body(self.traversal.rows, self.traversal.body, None)
        if not any(True for _ in writes(self.traversal)):
            raise self.error("stores nothing: add a store, or drop the kernel")

    def _body(self, rows: Rows, body: tuple[Stmt, ...], loop: ForEach | None) -> None:
        if not body:
            raise self.error("the body is empty: drop the loop", loop)
        self.enter(rows)
        for statement in body:
            self._statement(statement)
        self.scopes.pop()

    def enter(self, rows: Rows) -> None:
        """A loop begins."""
        self.scopes.append(_Scope(rows))

    def _statement(self, statement: Stmt) -> None:
        match statement:
            case Def(name, shape, expr):
                found = self._expr(expr, statement)
                if shape != found:
                    raise self.error(f"the value has row shape {found}: declare that", statement)
                self.declare(name, shape, statement)
            case Init():
                self._init(statement)
            case Update():
                self._update(statement)
            case Store(buffer, value, _):
                type = self.own_row(buffer, self.scopes[-1].rows, statement)
                self._same_shape(f"buffer {buffer!r}", type.shape, value, statement)
            case ForEach():
                self._loop(statement)

    def _init(self, init: Init) -> None:
        scope = self.scopes[-1]
        if init.reduce not in REDUCTIONS:
            raise self.error(f"there is no reduction {init.reduce!r}: use sum or max", init)
        if any(extent < 1 for extent in init.shape):
            raise self.error("an extent is below 1: give each axis at least 1 element", init)
        self.declare(init.name, init.shape, init)
        if init.below:
            shape = scope.shapes.get(init.below)
            if init.reduce != "sum" or init.below not in scope.maxima - scope.grown:
                raise self.error(
                    "only a sum is below a maximum, which the same loop declares and nothing has "
                    "updated yet: write `init MAXIMUM: [...] max` before it",
                    init,
                )
            if shape is None or init.shape[: len(shape)] != shape:
                raise self.error(
                    f"the maximum {init.below!r} has row shape {shape}, no prefix of "
                    f"{init.shape}: make it one",
                    init,
                )
            scope.running.add(init.below)
        scope.accumulators.add(init.name)
        if init.reduce == "max":
            scope.maxima.add(init.name)

    def declare(self, name: str, shape: tuple[int, ...], statement: Stmt) -> None:
        """A value's name is one, and new."""
        if not NAME.fullmatch(name):
            raise self.error(f"{name!r} is no identifier: use letters, digits and _", statement)
        if any(name in scope.shapes for scope in self.scopes):
            raise self.error(f"{name!r} is defined already: rename one of the two", statement)
        self.scopes[-1].shapes[name] = shape

    def _update(self, update: Update) -> None:
        for scope in self.scopes:
            if update.name in scope.accumulators:
                shape = scope.shapes[update.name]
                self._same_shape(f"accumulator {update.name!r}", shape, update.value, update)
                if update.name in scope.running and update.name in self.scopes[-1].grown:
                    raise self.error(
                        f"{update.name!r}, which sums are below, has been updated already: do it "
                        "once for a row, before it is read",
                        update,
                    )
                self.scopes[-1].grown.add(update.name)
                return
        raise self.error(
            f"there is no accumulator {update.name!r} here: declare it with init in this loop or "
            "one around it",
            update,
        )

    def _same_shape(self, what: str, shape: tuple[int, ...], value: str, statement: Stmt) -> None:
        found = self._value(value, statement)
        if found != shape:
            raise self.error(
                f"{what} has row shape {shape} but {value!r} has {found}: make them equal",
                statement,
            )

    def _loop(self, loop: ForEach) -> None:
        self.rows(loop.rows, loop)
        outer, inner = self.scopes[-1].rows, loop.rows
        allowed = (outer.space, inner.space) in (
            (Space.NODE, Space.DST_PAIR),
            (Space.NODE, Space.EDGE),
            (Space.DST_PAIR, Space.EDGE),
        )
        if not allowed:
            raise self.error(
                f"{inner.space} rows cannot nest in {outer.space} rows: nest node > dst_pair > "
                "edge, node > edge or dst_pair > edge",
                loop,
            )
        if outer.space is Space.DST_PAIR and outer.group != inner.group:
            raise self.error(
                f"the edges are of another group than {show_rows(outer)}: walk "
                f"{show_rows(Rows(Space.EDGE, outer.group))}",
                loop,
            )
        before = self.partial
        declared = {name for scope in self.scopes for name in scope.accumulators}
        updated = {s.name for s in statements(loop.body) if isinstance(s, Update)}
        self.partial = before | (updated & declared)
        self._body(inner, loop.body, loop)
        self.partial = before
        self.scopes[-1].grown |= updated

    def _value(self, name: str, statement: Stmt) -> tuple[int, ...]:
        """The row shape of a named value."""
        if name in self.partial and not self._runs(name):
            raise self.error(
                f"{name!r} is read in a loop that still updates it: read it after the loop, or in "
                "a second loop",
                statement,
            )
        for scope in self.scopes:
            if name in scope.shapes:
                return scope.shapes[name]
        hint = f"read the buffer first: `v = read {name}`" if name in self.types else "define it"
        raise self.error(f"there is no value {name!r} here: {hint}", statement)

    def _runs(self, name: str) -> bool:
        """Whether a maximum may be read while it grows: sums follow it, and it knows this row."""
        running = any(name in scope.running for scope in self.scopes)
        return running and name in self.scopes[-1].grown

    def _expr(self, expr: Expr, statement: Stmt) -> tuple[int, ...]:
        match expr:
            case Read():
                return self._read(expr, statement)
            case Apply():
                return self._apply(expr, statement)
            case Inner(x, y):
                return self._inner(self._value(x, statement), self._value(y, statement), statement)

    def _read(self, read: Read, statement: Stmt) -> tuple[int, ...]:
        type = self.buffer(read.buffer, statement)
        rows = self.scopes[-1].rows
        ends: tuple[End, ...] = (End.NONE,)
        match type.space:
            case Space.NODE | Space.NTYPE:
                ends = NODE_ENDS[rows.space]
            case Space.SHARED:
                pass
            case Space.ETYPE:
                if not rows.space.is_edgewise:
                    raise self.error(
                        f"{read.buffer!r} is {show_type(type)}, but {show_rows(rows)} rows have no "
                        "edge type: read it in a loop over edges or pairs",
                        statement,
                    )
            case Space.EDGE:
                self.own_row(read.buffer, rows, statement)
            case _:
                if rows != Rows(Space.EDGE, type.group):
                    self.own_row(read.buffer, rows, statement)
        if read.end not in ends:
            allowed = " or ".join(f"`{_suffixed(read.buffer, end)}`" for end in ends)
            raise self.error(
                f"{read.buffer!r} is {show_type(type)} and cannot be read at {read.end!s} of "
                f"{show_rows(rows)} rows: read {allowed}",
                statement,
            )
        return type.shape

    def _apply(self, apply: Apply, statement: Stmt) -> tuple[int, ...]:
        self.function(apply.fn, len(apply.args), apply.const, statement)
        shapes = [self._value(arg, statement) for arg in apply.args]
        longest = max(shapes, key=len)
        for shape in shapes:
            if longest[: len(shape)] != shape:
                raise self.error(
                    f"row shape {shape} is no prefix of {longest}: make the shorter one a prefix",
                    statement,
                )
        return longest

    def _inner(self, x: tuple[int, ...], y: tuple[int, ...], statement: Stmt) -> tuple[int, ...]:
        longer, shorter = (x, y) if len(x) >= len(y) else (y, x)
        fits = longer == shorter or (len(longer) >= 2 and longer[1:] == shorter)
        if not longer or not fits:
            raise self.error(
                f"row shapes {x} and {y} have no inner product: make them equal, or one the other "
                "without its first axis",
                statement,
            )
        return longer[:-1]


def _suffixed(buffer: str, end: End) -> str:
    return buffer if end is End.NONE else f"{buffer}[{end}]"
