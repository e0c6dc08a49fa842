"""Random launches: what every backend is tested with against the interpreter."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from hetune.variants.kernel.nodes import (
    REDUCTIONS,
    Apply,
    Buffer,
    Def,
    Direct,
    FoldAxis,
    ForEach,
    Gather,
    Gemm,
    Init,
    Inner,
    Kernel,
    Launch,
    Read,
    Rows,
    SegmentSum,
    Stmt,
    Traversal,
    Update,
    Write,
)
from hetune.variants.kernel.verify import verify
from hetune.variants.kernel.walk import reads, writes
from hetune.variants.program.functions import FOLDS, WITH_CONSTANT
from hetune.variants.program.nodes import End, Space, Type

GROUPS = ("", "a", "b")
"""The groups that random launches name."""

_Shape = tuple[int, ...]
_SMOOTH = (
    "relu", "gelu", "sigmoid", "tanh", "one_minus", "leaky_relu", "scale", "exp", "silu",
    "softplus", "elu", "abs", "sin", "cos", "square", "shift", "clamp_min", "clamp_max",
)  # fmt: skip
_BINARY = ("add", "sub", "mul", "maximum", "minimum", "div")
_PAIRS = (Space.SRC_PAIR, Space.DST_PAIR)


def random_launch(seed: int, widths: tuple[int, ...] = (1, 3, 7, 16)) -> Launch:
    """A verified launch of one to three kernels; equal seeds give equal launches.

    Its values stay of moderate size for inputs of about 1, so that float32 can be compared with
    float64.

    Args:
        seed: Any integer.
        widths: Widths of a head to draw from.
    """
    launch = _Generator(random.Random(seed), widths).launch()  # noqa: S311
    verify(launch)
    return launch


@dataclass(slots=True)
class _Scope:
    rows: Rows
    shapes: dict[str, _Shape] = field(default_factory=dict)


class _Generator:
    def __init__(self, rng: random.Random, widths: tuple[int, ...]) -> None:
        self._rng = rng
        self._heads = rng.choice((1, 2, 4))
        self._width = rng.choice(widths)
        self._buffers: list[Buffer] = []
        self._written: set[str] = set()
        self._names = 0

    def launch(self) -> Launch:
        fused = self._rng.random() < 0.4
        spaces = (Space.NODE, Space.EDGE, Space.DST_PAIR, *(() if fused else (Space.SRC_PAIR,)))
        kernels: list[Kernel] = []
        for _ in range(self._rng.randint(2, 3) if fused else 1):
            space = self._rng.choice(spaces)
            rows = Rows(space, "" if space is Space.NODE else self._rng.choice(GROUPS))
            make = self._gemm if self._rng.random() < 0.5 else self._traversal
            kernels.append(make(rows))
        used = {name for k in kernels for name in (*(n for n, _ in reads(k)), *writes(k))}
        return Launch(tuple(kernels), tuple(b for b in self._buffers if b.name in used))

    # Buffers.

    def _name(self, prefix: str) -> str:
        self._names += 1
        return f"{prefix}{self._names}"

    def _buffer(self, prefix: str, space: Space, shape: _Shape, group: str) -> str:
        type = Type(space, shape, group if space in _PAIRS else "")
        self._buffers.append(Buffer(self._name(prefix), type))
        return self._buffers[-1].name

    def _input(self, space: Space, shape: _Shape, group: str, at_source: bool = False) -> str:
        """A buffer to read: now and then one that an earlier kernel wrote."""
        type = Type(space, shape, group if space in _PAIRS else "")
        known = [
            b.name
            for b in self._buffers
            if b.type == type and not (at_source and b.name in self._written)
        ]
        if known and self._rng.random() < 0.7:
            return self._rng.choice(known)
        return self._buffer("x", space, shape, group)

    def _output(self, space: Space, shape: _Shape, group: str) -> str:
        name = self._buffer("y", space, shape, group)
        self._written.add(name)
        return name

    def _shape(self) -> _Shape:
        h, d = self._heads, self._width
        return self._rng.choice(((), (h,), (d,), (h, d), (h, d)))

    # Typed matrix products.

    def _gemm(self, rows: Rows) -> Gemm:
        rng, heads, k = self._rng, self._rng.choice((1, self._heads)), self._width
        n = rng.choice((1, self._width, self._width + 2))
        x = self._operand(rows, heads, k)
        typed = Space.NTYPE if rows.space is Space.NODE else Space.ETYPE
        w = self._input(rng.choice((typed, typed, Space.SHARED)), (heads, k, n), "")
        scale = bias = None
        if rng.random() < 0.4:
            scale = self._input(rows.space, rng.choice(((), (heads,))), rows.group)
        scatter = rows.space in (Space.EDGE, Space.DST_PAIR) and rng.random() < 0.6
        if not scatter and rng.random() < 0.4:
            bias = self._input(rng.choice((typed, Space.SHARED)), (heads * n,), "")
        shape = rng.choice(((heads, n), (heads * n,)))
        out = self._output(Space.NODE if scatter else rows.space, shape, rows.group)
        accumulate = scatter or rng.random() < 0.3
        only, fill = End.NONE, False
        if rows.space is Space.NODE and rng.random() < 0.4:
            only = rng.choice((End.SRC, End.DST))
            fill = not accumulate and rng.random() < 0.5
        return Gemm(out, x, w, rows, heads, k, n, scatter, accumulate, scale, bias, only, fill)

    def _operand(self, rows: Rows, heads: int, k: int) -> Direct | Gather | SegmentSum:
        rng, shape = self._rng, (heads, k)
        if rows.space is Space.DST_PAIR and rng.random() < 0.6:
            weight = None
            if rng.random() < 0.7:
                weight_shape: _Shape = rng.choice(((), (heads,)))
                weight = self._input(Space.EDGE, weight_shape, "")
                if weight_shape:
                    shape = rng.choice(((heads, k), (1, k)))
            if rng.random() < 0.7:
                x = self._input(Space.NODE, shape, "", at_source=True)
                return SegmentSum(x, End.SRC, weight)
            return SegmentSum(self._input(Space.EDGE, shape, ""), End.NONE, weight)
        if rows.space is Space.NODE or rng.random() < 0.4:
            return Direct(self._input(rows.space, shape, rows.group))
        end = self._end(rows)
        return Gather(self._input(Space.NODE, shape, "", at_source=end is End.SRC), end)

    def _end(self, rows: Rows) -> End:
        match rows.space:
            case Space.NODE:
                return End.NONE
            case Space.DST_PAIR:
                return End.DST
            case Space.EDGE:
                return self._rng.choice((End.SRC, End.DST))
            case _:
                return End.SRC

    # Traversals.

    def _traversal(self, rows: Rows) -> Traversal:
        scopes = [_Scope(rows)]
        body = self._defs(scopes, 2)
        for _ in range(self._rng.randint(1, 2)):
            body += self._nest(scopes)
        body += self._store(scopes)
        return Traversal(rows, tuple(body))

    def _nest(self, scopes: list[_Scope]) -> list[Stmt]:
        """An accumulator, a loop that updates it, and a value made of it."""
        rng, outer = self._rng, scopes[-1].rows
        match outer.space:
            case Space.NODE:
                inner = Rows(rng.choice((Space.DST_PAIR, Space.EDGE)), rng.choice(GROUPS))
            case Space.DST_PAIR:
                inner = Rows(Space.EDGE, outer.group)
            case _:
                return []
        shape, reduce, name = self._shape(), rng.choice(tuple(REDUCTIONS)), self._name("acc")
        scope = _Scope(inner)
        nested = [*scopes, scope]
        body = self._defs(nested, rng.randint(1, 3))
        if inner.space is Space.DST_PAIR and rng.random() < 0.7:
            body += self._nest(nested)
        value, made = self._value_of(nested, shape)
        body += [*made, Update(name, value)]
        if rng.random() < 0.3:
            body += self._store(nested)
        # A maximum over nothing is -inf: squash it before anything else reads it.
        safe = self._name("v")
        scopes[-1].shapes[safe] = shape
        squash = Def(safe, shape, Apply("tanh", (name,)))
        return [Init(name, shape, reduce), ForEach(inner, tuple(body)), squash]

    def _store(self, scopes: list[_Scope]) -> list[Stmt]:
        rows, shape = scopes[-1].rows, self._shape()
        value, made = self._value_of(scopes, shape)
        out = self._output(rows.space, shape, rows.group)
        return [*made, Write(out, value, self._rng.random() < 0.4)]

    def _defs(self, scopes: list[_Scope], count: int) -> list[Stmt]:
        made: list[Stmt] = []
        for _ in range(count):
            made.append(self._read(scopes, self._shape()))
            made += self._combine(scopes)
        return made

    def _define(self, scopes: list[_Scope], definition: Def) -> Def:
        scopes[-1].shapes[definition.name] = definition.shape
        return definition

    def _read(self, scopes: list[_Scope], shape: _Shape) -> Def:
        rng, rows = self._rng, scopes[-1].rows
        spaces = [Space.NODE, Space.NTYPE, Space.SHARED, rows.space]
        if rows.space.is_edgewise:
            spaces.append(Space.ETYPE)
        if rows.space is Space.EDGE:
            spaces += _PAIRS
        space = rng.choice(spaces)
        end = self._end(rows) if space in (Space.NODE, Space.NTYPE) else End.NONE
        name = self._input(space, shape, rows.group, at_source=end is End.SRC)
        return self._define(scopes, Def(self._name("v"), shape, Read(name, end)))

    def _combine(self, scopes: list[_Scope]) -> list[Stmt]:
        """A function of values at hand; what could grow without bound is squashed first."""
        rng = self._rng
        values = {n: s for scope in scopes for n, s in scope.shapes.items()}
        x = rng.choice(list(values))
        kind = rng.random()
        if kind < 0.35:
            fn = rng.choice(_SMOOTH)
            const = rng.choice((0.2, -0.5, 1e-05)) if fn in WITH_CONSTANT else None
            squash = Def(self._name("v"), values[x], Apply("tanh", (x,)))
            step = Def(self._name("v"), values[x], Apply(fn, (squash.name,), const))
            return [self._define(scopes, squash), self._define(scopes, step)]
        fitting = [n for n, s in values.items() if _inner_shape(values[x], s) is not None]
        if 0.5 <= kind < 0.6 and values[x]:
            axis, fn = rng.randrange(len(values[x])), rng.choice(FOLDS)
            rest = values[x][:axis] + values[x][axis + 1 :]
            return [self._define(scopes, Def(self._name("v"), rest, FoldAxis(x, axis, fn)))]
        if kind < 0.5 and fitting:
            y = rng.choice(fitting)
            shape = _inner_shape(values[x], values[y])
            assert shape is not None
            return [self._define(scopes, Def(self._name("v"), shape, Inner(x, y)))]
        y = rng.choice([n for n, s in values.items() if _is_prefix(s, values[x])])
        fn, made = rng.choice(_BINARY), []
        if fn == "div":
            squash = Def(self._name("v"), values[y], Apply("tanh", (y,)))
            divisor = Def(self._name("v"), values[y], Apply("sigmoid", (squash.name,)))
            made, y = [self._define(scopes, squash), self._define(scopes, divisor)], divisor.name
        longer = max(values[x], values.get(y, ()), key=len)
        step = Def(self._name("v"), longer, Apply(fn, (x, y)))
        return [*made, self._define(scopes, step)]

    def _value_of(self, scopes: list[_Scope], shape: _Shape) -> tuple[str, list[Stmt]]:
        """A value of this shape, which depends on the values at hand where one fits."""
        base = self._read(scopes, shape)
        values = {n: s for scope in scopes for n, s in scope.shapes.items()}
        others = [n for n, s in values.items() if n != base.name and _is_prefix(s, shape)]
        if not others:
            return base.name, [base]
        step = Def(self._name("v"), shape, Apply("add", (base.name, self._rng.choice(others))))
        return step.name, [base, self._define(scopes, step)]


def _is_prefix(shorter: _Shape, longer: _Shape) -> bool:
    return longer[: len(shorter)] == shorter


def _inner_shape(x: _Shape, y: _Shape) -> _Shape | None:
    longer, shorter = (x, y) if len(x) >= len(y) else (y, x)
    if longer and (longer == shorter or (len(longer) >= 2 and longer[1:] == shorter)):
        return longer[:-1]
    return None
