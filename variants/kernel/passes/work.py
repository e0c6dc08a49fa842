"""How much a launch computes and moves, as a function of counts alone.

`formula` gives that function, which can be kept for all graphs; `work` its value.

The formulas, for a row of `width` elements, of 4 or 2 bytes each:

- `Gemm` over M rows: 2 M heads k n matrix operations; one vector operation per element of the
  product for each of scale, bias and adding up. A `SegmentSum` over E edges adds E heads k
  operations, twice that with a weight. A tail counts as a `Traversal` of the rows does, and an
  operand's function once for each of its elements. Of M nodes limited to those with an edge
  (``only``) no more than there are pairs are read, multiplied and, without ``fill``, written.
- `Outer` over M rows: 2 M heads k n matrix operations, or as many of vectors where k or n is 1;
  one more per element of the right operand for the scale. Each type's matrix is written once.
- `Traversal`: a statement runs once per row of its loop, over all rows of the domain. An
  elementwise function costs one operation per element (`leaky_relu` two; those in `SPECIAL` are
  counted apart), an inner product two per element, an update or
  an adding store one. A walk over nodes that adds sums to what is there passes by nodes that
  have nothing to add (`idle.adds_sums_over`); others are no more than there are pairs.
- Compulsory traffic: each distinct row of a buffer is read once and written once in a launch,
  and not read when the launch wrote it before; scratch never leaves the cache and is left out.
  The distinct nodes at one end of a set of edges are not known from counts; they are taken as
  min(N, pairs at that end).
- Gathered traffic: every read of a row that a *source* names (a node at src, a src_pair
  row of an edge), repeats included. Reads at destinations follow the order of the loops and
  are no gathers. The truth lies between the two, depending on caches.
- Index traffic: 4 bytes per entry of each list that a loop follows (src, dst, etype, pair,
  position, row pointers), each list once per loop.

Weights of a `Gemm` count once per type. They stay in cache.
"""

from __future__ import annotations

from collections.abc import Set
from math import prod

from hetune.variants.kernel.nodes import (
    Apply,
    Def,
    Direct,
    Expr,
    Factor,
    FoldAxis,
    ForEach,
    Gather,
    Gemm,
    Init,
    Inner,
    Launch,
    Outer,
    Read,
    Rows,
    SegmentSum,
    Stmt,
    Traversal,
    Update,
    Write,
)
from hetune.variants.kernel.passes.idle import adds_sums_over
from hetune.variants.kernel.passes.index_lists import lists_to
from hetune.variants.kernel.passes.terms import Count, Formula, Term, Work
from hetune.variants.program.nodes import End, Space

SPECIAL = frozenset(
    {
        "exp", "tanh", "sigmoid", "gelu", "div", "reciprocal", "log", "silu", "softplus", "elu",
        "sqrt", "rsqrt", "rsqrt0", "sin", "cos", "pow", "pow_c",
    }
)  # fmt: skip
"""Functions that cost many operations per element."""

_INDEX_BYTES = 4


def formula(launch: Launch) -> Formula:
    """The work of a verified launch."""
    tally = _Tally(launch)
    for kernel in launch.kernels:
        match kernel:
            case Gemm():
                tally.gemm(kernel)
            case Outer():
                tally.outer(kernel)
            case Traversal():
                tally.traversal(kernel)
    return tally.formula()


def work(launch: Launch, count: Count) -> Work:
    """The work of a verified launch on a graph; see `formula` and `Formula.at`."""
    return formula(launch).at(count)


def limit_of(gemm: Gemm) -> Rows:
    """The rows that are computed: there are no more nodes with an edge than pairs at that end."""
    match gemm.only:
        case End.SRC:
            return Rows(Space.SRC_PAIR)
        case End.DST:
            return Rows(Space.DST_PAIR)
    return gemm.rows


_ONE = Rows(Space.SHARED)


class _Tally:
    """Adds up terms. A *cover* is the set of a buffer's rows that a loop's rows see together."""

    def __init__(self, launch: Launch) -> None:
        self._types = {buffer.name: buffer.type for buffer in launch.buffers}
        self._scratch = {buffer.name for buffer in launch.buffers if buffer.scratch}
        self._row_bytes = {buffer.name: buffer.row_bytes for buffer in launch.buffers}
        self._read: dict[str, dict[Rows, None]] = {name: {} for name in self._types}
        self._written: dict[str, dict[Rows, None]] = {name: {} for name in self._types}
        self._sums: dict[tuple[str, tuple[Rows, ...], Rows | None], int] = {}
        self._gathers: list[tuple[Term, Term]] = []

    def formula(self) -> Formula:
        for field, covers in (("read_bytes", self._read), ("write_bytes", self._written)):
            for name, found in covers.items():
                if found and name not in self._scratch:
                    self._add(field, self._row_bytes[name], *found, cap=self._all(name))
        terms = tuple(
            (field, Term(factor, rows, cap)) for (field, rows, cap), factor in self._sums.items()
        )
        return Formula(terms, tuple(self._gathers))

    def _add(self, field: str, factor: int, *rows: Rows, cap: Rows | None = None) -> None:
        """Sets of one buffer may overlap: their sum counts, but no more than all rows."""
        cap = None if rows == (cap,) else cap
        key = field, rows, cap
        self._sums[key] = self._sums.get(key, 0) + factor

    # Which rows.

    def _all(self, name: str) -> Rows:
        return Rows(self._types[name].space, self._types[name].group)

    def _cover(self, name: str, rows: Rows, end: End) -> Rows:
        match self._types[name].space:
            case Space.NODE if rows.space is not Space.NODE:
                side = Space.DST_PAIR if end is End.DST else Space.SRC_PAIR
                return Rows(side, rows.group)
            case Space.EDGE if rows.group:
                return rows
            case Space.ETYPE if rows.group:
                return Rows(Space.ETYPE, rows.group)
        return self._all(name)

    # Accesses.

    def _access(self, name: str, rows: Rows, end: End, cap: Rows | None = None) -> Rows:
        """One access per row, but no more than `cap` has: counts all but the distinct rows."""
        row_bytes, space = self._row_bytes[name], self._types[name].space
        cover = self._cover(name, rows, end)
        if cap is not None and cover == rows:
            cover = cap
        self._touch(name, rows, cap)
        by_pair = space is Space.SRC_PAIR and rows.space is Space.EDGE
        if by_pair or (space is Space.NODE and end is End.SRC):
            self._add("gathers", 1, rows)
            table = Term(row_bytes, (cover,), self._all(name))
            self._gathers.append((Term(row_bytes, (rows,)), table))
        return cover

    def _touch(self, name: str, rows: Rows, cap: Rows | None = None) -> None:
        self._add("touched_bytes", self._row_bytes[name], rows, cap=cap)
        if name in self._scratch:
            self._add("scratch_bytes", self._row_bytes[name], rows, cap=cap)

    def _note_read(self, name: str, cover: Rows) -> None:
        written = self._written[name]
        if cover not in written and self._all(name) not in written:
            self._read[name][cover] = None

    def _read_rows(self, name: str, rows: Rows, end: End, cap: Rows | None = None) -> None:
        self._note_read(name, self._access(name, rows, end, cap))

    def _write_rows(
        self, name: str, rows: Rows, end: End, accumulate: bool, cap: Rows | None = None
    ) -> None:
        cover = self._access(name, rows, end, cap)
        if accumulate:
            self._note_read(name, self._access(name, rows, end, cap))
            self._add("vector_flops", self._types[name].width, rows, cap=cap)
        self._written[name][cover] = None

    def _follow(self, rows: Rows, cap: Rows | None = None) -> None:
        """An index list with an entry for each row."""
        self._add("index_bytes", _INDEX_BYTES, rows, cap=cap)

    def _follow_pointers(self, outer: Rows) -> None:
        self._add("index_bytes", _INDEX_BYTES, outer, _ONE)

    # Typed matrix products.

    def gemm(self, gemm: Gemm) -> None:
        rows = gemm.rows
        width = gemm.heads * gemm.n
        limit = limit_of(gemm)
        self._add("matrix_flops", 2 * width * gemm.k, rows, cap=limit)
        self._operand(gemm.factor, limit)
        for name in (gemm.scale, gemm.bias):
            if name is not None:
                self._read_rows(name, rows, End.NONE, limit)
                self._add("vector_flops", width, rows, cap=limit)
        weight = self._cover(gemm.w, rows, End.NONE)
        self._touch(gemm.w, weight)
        self._note_read(gemm.w, weight)
        typed = self._types[gemm.w].space is not Space.SHARED
        if typed:
            self._follow(rows, limit)  # the types of rows
        if gemm.scatter:
            self._follow(rows)  # the destinations of rows
        by_position = isinstance(gemm.x, Direct) or gemm.scale is not None or not gemm.scatter
        if rows.space is Space.EDGE and rows.group and by_position:
            self._follow(rows)  # the group's positions
        if gemm.tail:
            node = rows.space is Space.NODE
            types = ("ntype" if node else "etype", rows)
            known = {types, ("position", rows)} if typed else {("position", rows)}
            self.body((rows,), gemm.tail, {}, known)
        else:
            end = End.DST if gemm.scatter else End.NONE
            written = rows if gemm.fill else limit
            self._write_rows(gemm.out, rows, end, gemm.accumulate, written)

    def outer(self, outer: Outer) -> None:
        rows, out = outer.rows, self._all(outer.out)
        flops = "vector_flops" if 1 in (outer.k, outer.n) else "matrix_flops"
        self._add(flops, 2 * outer.heads * outer.k * outer.n, rows)
        for factor in outer.factors:
            self._operand(factor, rows)
        if outer.scale is not None:
            self._read_rows(outer.scale, rows, End.NONE)
            self._add("vector_flops", outer.heads * outer.n, rows)
        if out.space is not Space.SHARED:
            self._follow(rows)  # rows by type
        if rows.space is Space.EDGE and rows.group:
            self._follow(rows)  # the group's positions
        self._write_rows(outer.out, out, End.NONE, outer.accumulate)

    def _operand(self, factor: Factor, limit: Rows) -> None:
        rows, width = factor.rows, factor.heads * factor.k
        match factor.x:
            case Direct(buffer, fn):
                self._read_rows(buffer, rows, End.NONE, limit)
                if fn:
                    self._function(fn, width, rows, limit)
            case Gather(buffer, end):
                self._read_rows(buffer, rows, end)
                self._follow(rows)
            case SegmentSum(buffer, end, weight):
                edges = Rows(Space.EDGE, rows.group)
                self._read_rows(buffer, edges, end)
                self._follow_pointers(rows)
                if end is not End.NONE:
                    self._follow(edges)
                if rows.group and (end is End.NONE or weight is not None):
                    self._follow(edges)  # the group's positions
                self._add("vector_flops", width, edges)
                if weight is not None:
                    self._read_rows(weight, edges, End.NONE)
                    self._add("vector_flops", width, edges)

    # Traversals.

    def traversal(self, walk: Traversal) -> None:
        summed = adds_sums_over(walk)
        some = None if summed is None else Rows(Space.DST_PAIR, summed.group)
        self.body((walk.rows,), walk.body, {}, stored=some)

    def body(
        self,
        loops: tuple[Rows, ...],
        body: tuple[Stmt, ...],
        known: dict[str, tuple[int, ...]],
        followed: Set[tuple[str, Rows]] = frozenset(),
        stored: Rows | None = None,
    ) -> None:
        """Count a loop's statements; `loops` are those around it, itself the last.

        Lists that are `followed` already are not counted. The loop stores in no more turns than
        `stored` has rows.
        """
        rows, shapes = loops[-1], dict(known)
        lists: set[tuple[str, Rows]] = set()
        for statement in body:
            match statement:
                case Def(name, shape, expr):
                    shapes[name] = shape
                    self._expr(expr, shape, loops, shapes, lists)
                case Init(name, shape, _):
                    shapes[name] = shape
                case Update(name):
                    self._add("vector_flops", prod(shapes[name]), rows)
                case Write(buffer, _, accumulate):
                    self._write_rows(buffer, rows, End.NONE, accumulate, stored)
                    lists |= lists_to(self._types[buffer], End.NONE, loops)
                case ForEach(inner, nested):
                    self._follow_pointers(rows)
                    self.body((*loops, inner), nested, shapes)
        for _, entries in lists - followed:
            self._follow(entries)

    def _expr(
        self,
        expr: Expr,
        shape: tuple[int, ...],
        loops: tuple[Rows, ...],
        shapes: dict[str, tuple[int, ...]],
        lists: set[tuple[str, Rows]],
    ) -> None:
        rows = loops[-1]
        match expr:
            case Read(buffer, end):
                self._read_rows(buffer, rows, end)
                lists |= lists_to(self._types[buffer], end, loops)
            case Apply(fn):
                self._function(fn, prod(shape), rows)
            case Inner(x, y):
                self._add("vector_flops", 2 * max(prod(shapes[x]), prod(shapes[y])), rows)
            case FoldAxis(x=x):
                self._add("vector_flops", prod(shapes[x]), rows)

    def _function(self, fn: str, elements: int, rows: Rows, cap: Rows | None = None) -> None:
        """An elementwise function of so many elements of each row."""
        if fn in SPECIAL:
            self._add("special", elements, rows, cap=cap)
        else:
            self._add("vector_flops", elements * (2 if fn == "leaky_relu" else 1), rows, cap=cap)
