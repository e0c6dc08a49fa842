"""The scores of as many edges as a vector has room for, and their exponentials."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from hetune.variants.backends.cpp.abi import Arguments
from hetune.variants.backends.cpp.operand import LINE
from hetune.variants.backends.cpp.pieces import vector_type
from hetune.variants.backends.cpp.scopes import GATHERED, Frame
from hetune.variants.backends.cpp.target import Assign, Declare, Do, For, If, Statement
from hetune.variants.backends.cpp.traversal import TraversalLowering
from hetune.variants.backends.cpp.values import apply
from hetune.variants.kernel.nodes import (
    Apply,
    Def,
    EdgeSoftmax,
    Inner,
    Launch,
    Read,
    Schedule,
    ScoreLoop,
    Stmt,
    Traversal,
)
from hetune.variants.program.nodes import End

_AHEAD = 16
"""Edges that rows are asked for ahead, at least."""


def fits(scores: ScoreLoop, shape: tuple[int, ...], lanes: int) -> bool:
    """Whether tiles of edges can have such scores.

    A vector holds those of several edges. Rows are whole vectors that inner products turn into
    numbers of a score's shape, and these alone are computed with afterwards.
    """
    heads = prod(shape)
    if lanes < 4 or heads > lanes // 2 or heads & (heads - 1):
        return False
    wide = wide_values(scores, shape)
    shapes = {s.name: s.shape for s in scores.body}
    for statement in scores.body:
        match statement:
            case Def(name, own, Read()):
                good = own[-1] % lanes == 0 if name in wide else own == shape
            case Def(name, own, Apply(args=args)):
                good = all((arg in wide) == (name in wide) for arg in args)
                good = good and (name in wide or all(shapes[arg] == shape for arg in args))
            case Def(_, own, Inner(x, y)):
                good = own == shape and x in wide and y in wide and shapes[x] == shapes[y]
            case _:
                good = False
        if not good:
            return False
    return scores.value not in wide


def wide_values(scores: ScoreLoop, shape: tuple[int, ...]) -> frozenset[str]:
    """The values that have more elements than a score."""
    return frozenset(s.name for s in scores.body if prod(s.shape) > prod(shape))


class TileScores(TraversalLowering):
    """Lowers the scores of the edges from ``tile`` on; those behind ``last`` are its."""

    def __init__(
        self,
        launch: Launch,
        arguments: Arguments,
        schedule: Schedule,
        softmax: EdgeSoftmax,
        scores: ScoreLoop,
    ) -> None:
        traversal = Traversal(scores.rows, scores.body)
        super().__init__(traversal, "", launch, schedule, arguments, True)
        self.scores, self.shape = scores, softmax.shape
        self.heads = prod(softmax.shape)
        self.count = schedule.lanes // self.heads
        self.frame = Frame(scores.rows, "e")

    def statements(self) -> list[Statement]:
        """Computes ``powers``; where not all scores are moderate, the function ends."""
        wide, kind = wide_values(self.scores, self.shape), vector_type(self.schedule.lanes)
        numbers: dict[str, str] = {}
        found: list[Statement] = []
        terms: list[Statement] = []
        self.scopes.frames.append(self.frame)
        for statement in self.scores.body:
            name = statement.name
            match statement.expr:
                case Read() as read if name not in wide:
                    value = self._lanes_of(read)
                case Apply(fn, args, const) if name not in wide:
                    value = apply(fn, tuple(numbers[arg] for arg in args), const)
                case Inner() as inner:
                    products = self.scopes.unique(f"{name}_terms")
                    terms.append(Declare(kind, f"{products}[{self.schedule.lanes}]"))
                    self._terms(products, inner)
                    value = f"fold_rows({products})"
                case _:
                    self._lower(statement)
                    continue
            numbers[name] = self.scopes.unique(name)
            found.append(Declare(f"const {kind}", numbers[name], value))
        self.scopes.frames.pop()
        score = numbers[self.scores.value]
        rows: list[Statement] = []
        if self.frame.body:
            each = (self._edge(), *self.frame.body)
            rows = [*terms, For("int", "i", "0", f"{self.count}", each, unroll=self.count)]
        return [
            *rows,
            *found,
            If(f"!are_moderate({score})", (Do("return false"),)),
            Do(f"store(powers, exp({score}))"),
        ]

    def prefetches(self, body: Iterable[Stmt]) -> list[Statement]:
        """Asks for the rows that later tiles gather."""
        if not self.schedule.prefetch:
            return []
        asked: dict[Do, None] = {}
        self.scopes.frames.append(self.frame)
        for statement in body:
            match statement:
                case Def(expr=Read(buffer, end) as read) if end is not End.DST:
                    type, row = self.launch.type_of(buffer), self.scopes.locate(read)
                    if type.space in GATHERED and type.width >= LINE and len(row.path) == 1:
                        index = f"int64_t({row.path[0][1]}[ahead]) * {type.width}"
                        base = self.args.buffer(buffer)
                        asked[Do(f"prefetch_row<{type.width}>({base} + {index})")] = None
        self.scopes.frames.pop()
        distance = max(self.count, _AHEAD)
        ahead = Declare("const int32_t", "ahead", f"minimum<int64_t>(tile + {distance} + i, last)")
        return [For("int", "i", "0", f"{self.count}", (ahead, *asked))] if asked else []

    def _edge(self) -> Declare:
        return Declare("const int32_t", "e", "minimum<int64_t>(tile + i, last)")

    def _lanes_of(self, read: Read) -> str:
        """The rows of all edges of the tile side by side, as narrow as scores."""
        row, base = self.scopes.locate(read), self.args.buffer(read.buffer)
        kind = vector_type(self.heads)
        if row.shared:
            return f"repeat<{vector_type(self.schedule.lanes)}>(load<{kind}>({base}))"
        number = "minimum<int64_t>(tile + i, last)"
        for _, array in row.path:
            number = f"{array}[{number}]"
        place = number if self.heads == 1 else f"int64_t({number}) * {self.heads}"
        body = f"return load<{kind}>({base} + {place});"
        wide = vector_type(self.schedule.lanes)
        return f"lanes_of<{wide}, {self.heads}>([&](int i) INLINE_LAMBDA {{ {body} }})"

    def _terms(self, products: str, inner: Inner) -> None:
        """What is to be added up across lanes for each head."""
        for head, by_lanes in enumerate(self._products(inner)):
            place = f"i * {self.heads} + {head}" if self.heads > 1 else "i"
            factors = " + ".join(by_lanes[self.schedule.lanes])
            self.scopes.emit(Assign(f"{products}[{place}]", factors))
