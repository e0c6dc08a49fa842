"""The rules of a `Traversal`."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from hetune.variants.kernel.check import NAME, NODE_ENDS, Check
from hetune.variants.kernel.nodes import (
    REDUCTIONS,
    Apply,
    Def,
    EdgeSoftmax,
    Expr,
    FoldAxis,
    ForEach,
    Init,
    Inner,
    Read,
    Rows,
    Stmt,
    Traversal,
    Update,
    Write,
)
from hetune.variants.kernel.text import show_rows, show_type
from hetune.variants.kernel.walk import statements, writes
from hetune.variants.kernel.weighted import pair_loop, weighted_sums
from hetune.variants.kernel.widths import apply_shape
from hetune.variants.program.functions import FOLDS
from hetune.variants.program.nodes import End, Space, Type

_NONE: Mapping[str, tuple[int, ...]] = MappingProxyType({})


class _Scope:
    """The names of one loop."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.accumulators: dict[str, str] = {}
        """The reduction of each."""
        self.grown: set[str] = set()
        """Accumulators that have been updated for this row."""
        self.weighted: set[str] = set()
        """Those that a softmax's shares are weights of."""


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

    def _body(
        self,
        rows: Rows,
        body: tuple[Stmt, ...],
        loop: ForEach | None,
        given: Mapping[str, tuple[int, ...]] = _NONE,
    ) -> None:
        if not body:
            raise self.error("the body is empty: drop the loop", loop)
        self.enter(rows)
        for name, shape in given.items():
            self.declare(name, shape, body[0])
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
            case Write(buffer, value, _):
                type = self.own_row(buffer, self.scopes[-1].rows, statement)
                self._same_shape(f"buffer {buffer!r}", type.shape, value, statement)
            case ForEach():
                self._loop(statement)
            case EdgeSoftmax():
                self._softmax(statement)

    def _init(self, init: Init) -> None:
        scope = self.scopes[-1]
        if init.reduce not in REDUCTIONS:
            raise self.error(
                f"there is no reduction {init.reduce!r}: use one of {', '.join(REDUCTIONS)}", init
            )
        if any(extent < 1 for extent in init.shape):
            raise self.error("an extent is below 1: give each axis at least 1 element", init)
        self.declare(init.name, init.shape, init)
        scope.accumulators[init.name] = init.reduce

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
                if update.name in scope.weighted:
                    raise self.error(
                        f"a softmax's shares are weights of the sum {update.name!r}, to which "
                        "nothing else adds: declare another",
                        update,
                    )
                scope.grown.add(update.name)
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

    def _loop(self, loop: ForEach, given: Mapping[str, tuple[int, ...]] = _NONE) -> None:
        """Check a loop, in which values are given."""
        self._nests(loop.rows, loop)
        before = self.partial
        declared = {name for scope in self.scopes for name in scope.accumulators}
        updated = {s.name for s in statements(loop.body) if isinstance(s, Update)}
        self.partial = before | (updated & declared)
        self._body(loop.rows, loop.body, loop, given)
        self.partial = before

    def _nests(self, inner: Rows, statement: Stmt) -> None:
        """A loop over these rows may stand here."""
        self.rows(inner, statement)
        outer = self.scopes[-1].rows
        allowed = (outer.space, inner.space) in (
            (Space.NODE, Space.DST_PAIR),
            (Space.NODE, Space.EDGE),
            (Space.DST_PAIR, Space.EDGE),
        )
        if not allowed:
            raise self.error(
                f"{inner.space} rows cannot nest in {outer.space} rows: nest node > dst_pair > "
                "edge, node > edge or dst_pair > edge",
                statement,
            )
        if outer.space is Space.DST_PAIR and outer.group != inner.group:
            raise self.error(
                f"the edges are of another group than {show_rows(outer)}: walk "
                f"{show_rows(Rows(Space.EDGE, outer.group))}",
                statement,
            )

    def _softmax(self, softmax: EdgeSoftmax) -> None:
        if len(self.scopes) > 1:
            raise self.error("stands in an inner loop: move it to the outermost", softmax)
        if not NAME.fullmatch(softmax.name):
            raise self.error(f"{softmax.name!r} is no identifier: use letters, digits and _")
        self._scores(softmax)
        if softmax.buffer:
            type = self.own_row(softmax.buffer, softmax.rows, softmax)
            if type.shape != softmax.shape:
                raise self.error(
                    f"buffer {softmax.buffer!r} has row shape {type.shape}: make them equal",
                    softmax,
                )
        elif not softmax.sums:
            raise self.error("nobody has its shares: add `to BUFFER`, or loops of sums", softmax)
        weighted: set[str] = set()
        for loop in softmax.sums:
            weighted |= self._weighted(loop, softmax)
        self.scopes[-1].weighted |= weighted

    def _scores(self, softmax: EdgeSoftmax) -> None:
        """Each of the softmax's edges has its score from one loop."""
        found = [part.rows for part in softmax.scores]
        groups = {rows.group for rows in found}
        parts = not softmax.rows.group and all(groups) and len(groups) == len(found) > 1
        if found != [softmax.rows] and not parts:
            raise self.error(
                f"edges of {show_rows(softmax.rows)} have scores in one loop over them, or all "
                "edges in one for each group: mend the loops",
                softmax,
            )
        for part in softmax.scores:
            self._nests(part.rows, softmax)
            self.enter(part.rows)
            for definition in part.body:
                self._statement(definition)
            self._same_shape("the softmax", softmax.shape, part.value, softmax)
            self.scopes.pop()

    def _weighted(self, loop: ForEach, softmax: EdgeSoftmax) -> set[str]:
        """The row's sums of a loop that a softmax's shares are weights of."""
        if loop.rows.space is Space.DST_PAIR:
            self._weighted_pairs(loop, softmax)
            return set()
        if not softmax.buffer and loop.rows not in {part.rows for part in softmax.scores}:
            raise self.error("no scores are over these edges: add `to BUFFER`", loop)
        sums = set(weighted_sums(loop.body, softmax.name) or ())
        scope = self.scopes[-1]
        own = {name for name, reduce in scope.accumulators.items() if reduce == "sum"}
        if not sums or not sums <= own - scope.grown - scope.weighted:
            raise self.error(
                "a softmax's loops add multiples of its shares to sums that begin with them, and "
                "do nothing else: walk the edges in a loop behind, and store the shares",
                loop,
            )
        scope.grown, grown = set(scope.grown), scope.grown
        self._loop(loop, {softmax.name: softmax.shape})
        scope.grown = grown
        return sums

    def _weighted_pairs(self, loop: ForEach, softmax: EdgeSoftmax) -> None:
        if not softmax.buffer or not pair_loop(loop, softmax.name):
            raise self.error(
                "in a loop over pairs, a softmax stores sums of one loop over their edges, which "
                "its shares weight, and needs room for a number of each edge: add `to BUFFER`, or "
                "walk the pairs in a loop behind",
                loop,
            )
        self._nests(loop.rows, loop)
        self.enter(loop.rows)
        for statement in loop.body:
            if isinstance(statement, ForEach):
                self._loop(statement, {softmax.name: softmax.shape})
            else:
                self._statement(statement)
        self.scopes.pop()

    def _value(self, name: str, statement: Stmt) -> tuple[int, ...]:
        """The row shape of a named value."""
        if name in self.partial:
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

    def _expr(self, expr: Expr, statement: Stmt) -> tuple[int, ...]:
        match expr:
            case Read():
                return self._read(expr, statement)
            case Apply():
                return self._apply(expr, statement)
            case Inner(x, y):
                return self._inner(self._value(x, statement), self._value(y, statement), statement)
            case FoldAxis(x, axis, fn):
                shape = self._value(x, statement)
                if fn not in FOLDS or not 0 <= axis < len(shape):
                    raise self.error(
                        f"axis {axis} of {shape} cannot be folded by {fn}: name an axis from 0, "
                        f"and one of {', '.join(FOLDS)}",
                        statement,
                    )
                return shape[:axis] + shape[axis + 1 :]

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
        if apply.fn == "outer":
            x, y = shapes
            if not x or len(x) != len(y) or x[:-1] != y[:-1]:
                raise self.error(
                    f"row shapes {x} and {y} have no outer product: make all axes but the last "
                    "equal",
                    statement,
                )
            return apply_shape(apply.fn, shapes)
        longest = apply_shape(apply.fn, shapes)
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
