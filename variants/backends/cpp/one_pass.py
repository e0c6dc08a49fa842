"""A softmax with the sums that it weights, in one pass over edges, many of them at a time.

A tile is as many edges as a vector holds scores. Inner products are summed across lanes by a tree
that transposes as it adds, so that the scores of a tile lie in one vector and have one
exponential. Its rows are summed while they are in the nearest cache. Tiles go across the rows of
the softmax: these are told apart as their edges are summed.

Exponentials are of the scores themselves, not of what they are below a maximum: sums are divided
by their total at the end. Where a score of a block is beyond 40 in size, the block is done again
in three passes.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from hetune.variants.backends.cpp.pieces import at, cut
from hetune.variants.backends.cpp.rows import block_range
from hetune.variants.backends.cpp.scopes import Frame
from hetune.variants.backends.cpp.target import (
    Assign,
    Declare,
    Do,
    For,
    Function,
    If,
    Statement,
    While,
)
from hetune.variants.backends.cpp.tile_scores import TileScores, fits
from hetune.variants.backends.cpp.traversal import TraversalLowering
from hetune.variants.backends.cpp.values import row_pieces
from hetune.variants.backends.describe import describe_traversal
from hetune.variants.backends.places import VARIABLES, segment_array
from hetune.variants.kernel.names import Names, declared, renamed
from hetune.variants.kernel.nodes import (
    Apply,
    Def,
    EdgeSoftmax,
    ForEach,
    Init,
    Read,
    Rows,
    ScoreLoop,
    Stmt,
    Traversal,
    Update,
    Write,
)
from hetune.variants.kernel.weighted import edges_of
from hetune.variants.program.nodes import Space

_MOST_VECTORS = 20
"""Vectors of sums that are kept in registers."""


@dataclass(frozen=True, slots=True)
class _Group:
    """Edges whose scores and sums are computed together, and the rows that they are summed in."""

    rows: Rows
    scores: ScoreLoop
    inits: tuple[Init, ...]
    sums: tuple[Stmt, ...]
    stores: tuple[Write, ...] = ()


def softmax_in_one_pass(traversal: Traversal, lanes: int) -> EdgeSoftmax | None:
    """The softmax of a traversal that is to run in one pass, if it can with vectors so wide."""
    for statement in traversal.body:
        if isinstance(statement, EdgeSoftmax) and statement.sums and statement.buffer:
            summed = {rows for loop in statement.sums for rows in edges_of(loop)}
            if summed != {part.rows for part in statement.scores}:
                return None
            inits = [s for s in traversal.body if isinstance(s, Init)]
            groups = _groups(statement, inits)
            good = all(
                fits(group.scores, statement.shape, lanes)
                and sum(-(-prod(s.shape) // lanes) for s in group.inits) <= _MOST_VECTORS
                for group in groups
            )
            return statement if good else None
    return None


def _groups(softmax: EdgeSoftmax, inits: list[Init]) -> tuple[_Group, ...]:
    """Those of pairs first: a node's sums are finished when its pairs' totals are known."""
    scores = {part.rows: part for part in softmax.scores}
    found: list[_Group] = []
    for loop in softmax.sums:
        if loop.rows.space is Space.EDGE:
            names = {s.name for s in loop.body if isinstance(s, Update)}
            own = tuple(s for s in inits if s.name in names)
            found.append(_Group(Rows(Space.NODE), scores[loop.rows], own, loop.body))
            continue
        (edges,) = (s for s in loop.body if isinstance(s, ForEach))
        own = tuple(s for s in loop.body if isinstance(s, Init))
        stores = tuple(s for s in loop.body if isinstance(s, Write))
        found.append(_Group(loop.rows, scores[edges.rows], own, edges.body, stores))
    return tuple(sorted(found, key=lambda group: group.rows.space is Space.NODE))


class OnePass(TraversalLowering):
    """Lowers a traversal with such a softmax; its ``traversal`` has the softmax in it."""

    def functions(self) -> tuple[Function, ...]:
        """The function that runs a block if all scores are moderate, and says whether they were."""
        body: list[Statement] = []
        softmax = softmax_in_one_pass(self.traversal, self.schedule.lanes)
        assert softmax is not None
        inits = [s for s in self.traversal.body if isinstance(s, Init)]
        groups = _groups(softmax, inits)
        first, stop = block_range(self.args, self.traversal.rows, self.node_blocked)
        body += [
            Declare("const int64_t", "first", first),
            Declare("const int64_t", "stop", stop),
        ]
        by_pairs = [group for group in groups if group.rows.space is Space.DST_PAIR]
        if by_pairs:
            body.append(self._clear_totals(softmax))
        for group in by_pairs:
            body.append(If(*self._pass(group, softmax)))
        of_nodes = [group for group in groups if group.rows.space is Space.NODE]
        for group in of_nodes:
            body.append(If(*self._pass(group, softmax, by_pairs)))
        if not of_nodes:
            self.scopes.frames.append(Frame(self.traversal.rows, "n"))
            total = self._new_sums((self._total(softmax),))
            self.scopes.frames.pop()
            finish = self._finish(softmax, by_pairs)
            body.append(For("int64_t", "n", "first", "stop", (*total, *finish)))
        body.append(Do("return true"))
        return (
            Function(
                f"{describe_traversal(self.traversal)}, if all scores are moderate",
                f"NOINLINE bool {self.name}_moderate",
                ("const Context& c", "int64_t block"),
                tuple(body),
            ),
        )

    def _total(self, softmax: EdgeSoftmax) -> Init:
        return Init(f"{softmax.name}_total", softmax.shape, "sum")

    def _new_sums(self, inits: tuple[Init, ...]) -> list[Statement]:
        """Accumulators, which begin at zero."""
        frame = Frame(self.traversal.rows, "n")
        self.scopes.frames.append(frame)
        for init in inits:
            self._declare(init)
        self.scopes.frames.pop()
        return frame.body

    # --- the pass of a group -------------------------------------------------------------

    def _pass(
        self, group: _Group, softmax: EdgeSoftmax, pairs: list[_Group] | None = None
    ) -> tuple[str, tuple[Statement, ...]]:
        """The condition under which a group has anything to do, and what it does.

        Args:
            group: The group.
            softmax: Whose scores these are.
            pairs: For sums of nodes: the groups of pairs, which are finished with them.
        """
        edges, heads = group.scores.rows, prod(softmax.shape)
        row = VARIABLES[group.rows.space]
        ends = segment_array(self.args, group.rows, edges)
        from_nodes = segment_array(self.args, self.traversal.rows, edges)
        if group.rows.space is Space.NODE:
            rows = "first", "stop"
        else:
            pointer = segment_array(self.args, self.traversal.rows, group.rows)
            rows = f"{pointer}[first]", f"{pointer}[stop]"
        total = self._total(softmax)
        declared_sums = self._new_sums((*group.inits, total))
        count = self.schedule.lanes // heads
        scores = TileScores(self.launch, self.args, self.schedule, softmax, group.scores)
        gathers = scores.prefetches((*group.scores.body, *group.sums))
        add = self._row(group, softmax)
        sums = [text for s in (*group.inits, total) for _, text in self.values[s.name].names]
        types = [p.type for s in (*group.inits, total) for p, _ in self.values[s.name].names]
        lanes = [p.lanes for s in (*group.inits, total) for p, _ in self.values[s.name].names]
        whole = list(zip(sums, types, (sum(lanes[:i]) for i in range(len(lanes))), strict=True))
        flush = self._flush_pair(group, softmax) if pairs is None else self._finish(softmax, pairs)
        next_stop = f"e + minimum({ends}[{row} + 1] - e, part_rows)"
        again: list[Statement] = [
            *(Do(f"add_part(whole + {offset}, {name})") for name, _, offset in whole),
            *(Assign(name, f"{kind}{{}}") for name, kind, _ in whole),
            Assign("is_long", "true"),
            Assign("row_stop", next_stop),
            Do("continue"),
        ]
        collected: list[Statement] = [
            *(Do(f"add_part(whole + {offset}, {name})") for name, _, offset in whole),
            *(Assign(name, f"rounded<{kind}>(whole + {offset})") for name, kind, offset in whole),
            For("int", "i", "0", f"{sum(lanes)}", (Assign("whole[i]", "0"),)),
            Assign("is_long", "false"),
        ]
        segments = While(
            "true",
            (
                Declare("const int32_t", "until", "minimum(row_stop, tile_stop)"),
                *add,
                If("e != row_stop", (Do("break"),)),
                If(f"e != {ends}[{row} + 1]", tuple(again)),
                If("is_long", tuple(collected)),
                *flush,
                *(Assign(name, f"{kind}{{}}") for name, kind, _ in whole),
                If(f"++{row} == {row}_stop", (Do("break"),)),
                Assign("row_stop", next_stop),
            ),
        )
        tile = (
            Declare("const int32_t", "tile_stop", f"minimum<int64_t>(tile + {count}, edges_stop)"),
            If("tile < edges_stop", (*gathers, *scores.statements())),
            segments,
            If(f"{row} == {row}_stop", (Do("break"),)),
        )
        body: tuple[Statement, ...] = (
            Declare("int32_t", "e", f"{from_nodes}[first]"),
            Declare("const int32_t", "edges_stop", f"{from_nodes}[stop]"),
            Declare("const int32_t", "last", "edges_stop - 1"),
            Declare("int64_t", row, rows[0]),
            Declare("const int64_t", f"{row}_stop", rows[1]),
            *declared_sums,
            Declare("double", f"whole[{sum(lanes)}]", "{}"),
            Declare("bool", "is_long", "false"),
            Declare("int32_t", "row_stop", next_stop),
            Declare("alignas(64) float", f"powers[{self.schedule.lanes}]"),
            For("int64_t", "tile", "e", "INT64_MAX", tile, step=f"{count}"),
        )
        return f"{rows[0]} < {rows[1]}", body

    def _row(self, group: _Group, softmax: EdgeSoftmax) -> list[Statement]:
        """Adds up edges from e to ``until``."""
        heads = prod(softmax.shape)
        outer = Frame(group.rows, VARIABLES[group.rows.space])
        inner = Frame(group.scores.rows, "e")
        self.scopes.frames += [outer, inner]
        pieces = row_pieces(softmax.shape, self.schedule.lanes)
        for piece, text in self._value(softmax.name, softmax.shape, pieces):
            place = at("powers + (e - tile)" + (f" * {heads}" if heads > 1 else ""), piece.offset)
            inner.body.append(Declare(f"const {piece.type}", text, f"load<{piece.type}>({place})"))
        for statement in (*group.sums, Update(self._total(softmax).name, softmax.name)):
            self._lower(statement)
        del self.scopes.frames[-2:]
        return [*outer.body, While("e < until", (*inner.body, Do("++e")))]

    # --- totals --------------------------------------------------------------------------

    def _clear_totals(self, softmax: EdgeSoftmax) -> Statement:
        place, heads = self._place("n", softmax), prod(softmax.shape)
        clear = tuple(
            Do(f"store({at(place, p.offset)}, {p.type}{{}})")
            for p in cut(heads, self.schedule.lanes)
        )
        return For("int64_t", "n", "first", "stop", (If(self._has_edges("n"), clear),))

    def _place(self, node: str, softmax: EdgeSoftmax) -> str:
        """Where a node's total is: at the first of its edges, of which it has one at least."""
        room, heads = self.args.buffer(softmax.buffer), prod(softmax.shape)
        return f"{room} + int64_t({self.args.index('', 'indptr')}[{node}]) * {heads}"

    def _has_edges(self, node: str) -> str:
        ends = self.args.index("", "indptr")
        return f"{ends}[{node}] != {ends}[{node} + 1]"

    def _flush_pair(self, group: _Group, softmax: EdgeSoftmax) -> list[Statement]:
        """Stores a pair's sums, and adds its total to that of its node."""
        frame = Frame(group.rows, "p")
        self.scopes.frames.append(frame)
        for statement in group.stores:
            self._lower(statement)
        self.scopes.frames.pop()
        node = f"{self.args.index(group.rows.group, 'dst_pair_node')}[p]"
        flush = [*frame.body, Declare("float*", "total_at", self._place(node, softmax))]
        for piece, text in self.values[self._total(softmax).name].names:
            place = at("total_at", piece.offset)
            flush.append(Do(f"store({place}, load<{piece.type}>({place}) + {text})"))
        return flush

    def _finish(self, softmax: EdgeSoftmax, pairs: list[_Group]) -> list[Statement]:
        """Divides a node's sums and its pairs', and runs what follows the softmax."""
        total = self.values[self._total(softmax).name]
        found: list[Statement] = []
        if pairs:
            loads = tuple(
                Assign(text, f"load<{p.type}>({at(self._place('n', softmax), p.offset)})", "+=")
                for p, text in total.names
            )
            found.append(If(self._has_edges("n"), loads))
        frame = Frame(self.traversal.rows, "n")
        names = Names({softmax.name, *declared(self.traversal.body)})
        inverse = names.fresh(f"{softmax.name}_inverse")
        for (piece, text), (_, of) in zip(
            self._value(inverse, softmax.shape, tuple(p for p, _ in total.names)),
            total.names,
            strict=True,
        ):
            zero = f"{piece.type}{{}}"
            value = f"{of} > {zero} ? 1.0f / {of} : {zero}"
            frame.body.append(Declare(f"const {piece.type}", text, value))
        self._lower_body(frame, self._after(softmax, pairs, inverse, names))
        if self.leaves_out_idle:
            return [*found, If(self._has_edges("n"), tuple(frame.body))]
        return [*found, *frame.body]

    def _after(
        self, softmax: EdgeSoftmax, pairs: list[_Group], inverse: str, names: Names
    ) -> tuple[Stmt, ...]:
        body: list[Stmt] = []
        for group in pairs:
            scaled: list[Stmt] = []
            for store in group.stores:
                shape = next(s.shape for s in group.inits if s.name == store.value)
                raw, share = names.fresh(f"{store.value}_raw"), names.fresh(f"{store.value}_share")
                scaled += [
                    Def(raw, shape, Read(store.buffer)),
                    Def(share, shape, Apply("mul", (inverse, raw))),
                    Write(store.buffer, share),
                ]
            body.append(ForEach(group.rows, tuple(scaled)))
        place = self.traversal.body.index(softmax)
        own = {s.name for loop in softmax.sums for s in loop.body if isinstance(s, Update)}
        before = [s for s in self.traversal.body[:place] if isinstance(s, Init)]
        shares = {s.name: names.fresh(f"{s.name}_share") for s in before if s.name in own}
        body += [
            Def(shares[s.name], s.shape, Apply("mul", (inverse, s.name)))
            for s in before
            if s.name in own
        ]
        others = [s for s in before if s.name not in own]
        return (*others, *body, *renamed(self.traversal.body[place + 1 :], shares))
