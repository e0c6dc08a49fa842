"""A layer as a few lines of Python about one edge, traced into a program.

    @layer_program
    def gat(g, x, w, att_src, att_dst, *, slope=0.2):
        hs = g.src(x) @ w  # w has one matrix per edge type
        hd = g.dst(x) @ w
        score = leaky_relu(dot(hs, att_src) + dot(hd, att_dst), slope)
        return g.sum(softmax(score, over=g.nodes) * hs)

    program = gat(
        x=node(64), w=etype(64, 16), att_src=shared(16), att_dst=shared(16), slope=0.1
    )

The function says what one edge does; nothing is optimised here. Its parameters after the graph
are values, given as types when a program is built (None leaves one out); keyword-only parameters
are options known at that time.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, NoReturn

from hetune.variants.errors import ProgramError
from hetune.variants.program.infer import infer
from hetune.variants.program.nodes import (
    Concat,
    Count,
    End,
    Fold,
    Let,
    Linear,
    Map,
    Op,
    Param,
    Program,
    Reduce,
    Reshape,
    Slice,
    Space,
    Take,
    Type,
    ends_between,
)
from hetune.variants.program.text import show_op, show_type
from hetune.variants.program.verify import verify


def node(*shape: int) -> Type:
    """A parameter with a row per node, given at each run."""
    return Type(Space.NODE, shape)


def edge(*shape: int) -> Type:
    """A parameter with a row per edge, given at each run."""
    return Type(Space.EDGE, shape)


@dataclass(frozen=True, slots=True)
class Constant:
    """A type of rows that depend on the graph alone. Made by `constant`."""

    type: Type


def constant(type: Type) -> Constant:
    """A parameter of `node` or `edge` rows that are the same at each run on a graph."""
    return Constant(type)


def etype(*shape: int) -> Type:
    """A weight with a row per edge type."""
    return Type(Space.ETYPE, shape)


def ntype(*shape: int) -> Type:
    """A weight with a row per node type."""
    return Type(Space.NTYPE, shape)


def shared(*shape: int) -> Type:
    """A weight that all rows share."""
    return Type(Space.SHARED, shape)


class _Trace:
    """The program so far."""

    def __init__(self) -> None:
        self.types: dict[str, Type] = {}
        self.lets: list[Let] = []

    def emit(self, op: Op, hint: str) -> Value:
        try:
            type_ = infer(op, self.types)
        except ProgramError as error:
            raise ProgramError(f"{show_op(op)}: {error}") from None
        name, copy = hint, 1
        while name in self.types:
            copy += 1
            name = f"{hint}{copy}"
        self.types[name] = type_
        self.lets.append(Let(name, type_, op))
        return Value(self, name)


class Value:
    """A value of the program that is being traced. Made by the graph and by operators.

    ``+ - * / **`` work row by row; the shorter row shape must be a prefix of the longer one. The
    other operand may be a number, but for ``2 ** x``. ``x @ w`` is the linear map whose weight each
    row's type chooses.
    """

    __slots__ = ("_trace", "name")
    __array_priority__ = 1000

    def __init__(self, trace: _Trace, name: str) -> None:
        self._trace = trace
        self.name = name

    @property
    def type(self) -> Type:
        """Space and row shape."""
        return self._trace.types[self.name]

    @property
    def shape(self) -> tuple[int, ...]:
        """Row shape."""
        return self.type.shape

    def reshape(self, *shape: int) -> Value:
        """The same elements of each row under another row shape."""
        return self._trace.emit(Reshape(self.name, shape), "reshape")

    def take(self, space: Space, end: End = End.NONE) -> Value:
        """The rows that each row of a finer space belongs to."""
        return self._trace.emit(Take(self.name, space, end), f"{self.name}_{space}")

    def __matmul__(self, w: Value) -> Value:
        weight = self._known(w, "@")
        return self._trace.emit(Linear(self.name, weight), f"by_{weight}")

    def apply(self, fn: str, *others: Value, const: float | None = None) -> Value:
        """A function of ``program.functions.MAP_ARITY``."""
        names = tuple(self._known(other, fn) for other in others)
        return self._trace.emit(Map(fn, (self.name, *names), const), fn)

    def fold(self, axis: int, fn: str = "sum") -> Value:
        """The "sum", "mean", "max" or "min" over an axis of each row, counted from 0 or the end."""
        at = axis + len(self.shape) if axis < 0 else axis
        return self._trace.emit(Fold(self.name, at, fn), fn)

    def slice(self, start: int, stop: int) -> Value:
        """Elements of each row's last axis; ``stop`` is not included."""
        return self._trace.emit(Slice(self.name, start, stop), "slice")

    def concat(self, *others: Value) -> Value:
        """This and other rows side by side on their last axis."""
        names = tuple(self._known(other, "concat") for other in others)
        return self._trace.emit(Concat((self.name, *names)), "concat")

    def __add__(self, other: Value | float) -> Value:
        return self._with("add", "shift", other, "+")

    def __radd__(self, number: float) -> Value:
        return self + number

    def __sub__(self, other: Value | float) -> Value:
        if isinstance(other, int | float):
            return self + -other
        return self._with("sub", "", other, "-")

    def __rsub__(self, number: float) -> Value:
        return self.apply("one_minus") if number == 1 else -self + number

    def __mul__(self, other: Value | float) -> Value:
        return self._with("mul", "scale", other, "*")

    def __rmul__(self, number: float) -> Value:
        return self * number

    def __truediv__(self, other: Value | float) -> Value:
        if isinstance(other, int | float):
            return self * (1 / other)
        return self._with("div", "", other, "/")

    def __rtruediv__(self, number: float) -> Value:
        inverse = self.apply("reciprocal")
        return inverse if number == 1 else inverse * number

    def __pow__(self, other: Value | float) -> Value:
        return self.apply("square") if other == 2 else self._with("pow", "pow_c", other, "**")

    def __neg__(self) -> Value:
        return self * -1.0

    def __abs__(self) -> Value:
        return self.apply("abs")

    def __bool__(self) -> NoReturn:
        raise ProgramError(
            f"{self} has no truth value while it is traced: branch on keyword-only options instead"
        )

    def __iter__(self) -> NoReturn:
        raise ProgramError(f"{self} cannot be iterated over: use operators on whole rows")

    def __repr__(self) -> str:
        return f"{self.name}: {show_type(self.type)}"

    def _with(self, fn: str, with_constant: str, other: Value | float, sign: str) -> Value:
        if isinstance(other, int | float) and with_constant:
            return self.apply(with_constant, const=float(other))
        return self._trace.emit(Map(fn, (self.name, self._known(other, sign))), fn)

    def _known(self, other: object, sign: str) -> str:
        if not isinstance(other, Value):
            self._refuse(other, sign)
        if other._trace is not self._trace:
            raise ProgramError(
                f"{other} belongs to another program than {self}: pass it in as a parameter"
            )
        return other.name

    def _refuse(self, other: object, sign: str) -> NoReturn:
        raise ProgramError(
            f"no {sign} of {self} and the {type(other).__name__} {other!r}: make it a parameter of "
            "the layer"
        )


class Graph:
    """How a layer speaks of edges and their ends."""

    nodes = Space.NODE
    src_pairs = Space.SRC_PAIR
    dst_pairs = Space.DST_PAIR
    etypes = Space.ETYPE
    ntypes = Space.NTYPE
    whole = Space.SHARED

    def __init__(self, trace: _Trace) -> None:
        self._trace = trace

    def src(self, x: Value) -> Value:
        """``x`` of each edge's source; of a value per node type, that of the edge type's."""
        return self._end(x, End.SRC)

    def dst(self, x: Value) -> Value:
        """``x`` of each edge's destination; of a value per node type, that of the edge type's."""
        return self._end(x, End.DST)

    def sum(self, x: Value, over: Space = Space.NODE) -> Value:
        """The sum of a node's (or pair's) incoming edges; 0 where there are none."""
        return self.reduce(x, over)

    def reduce(
        self, x: Value, over: Space = Space.NODE, fn: str = "sum", end: End | None = None
    ) -> Value:
        """The rows of ``x`` that belong to each node, pair, type or to the whole graph, as one.

        Args:
            x: A value in a space that `over`'s values can be taken to.
            over: Where to: `nodes`, `src_pairs`, `dst_pairs`, `etypes`, `ntypes` or `whole`.
            fn: "sum", "max" or "min", 0 where there are no rows, or "prod", 1 there.
            end: At which end of the edges, where there are two; the destination by default.
        """
        if end is None:
            ends = ends_between(over, x.type.space) if isinstance(x, Value) else ()
            end = ends[-1] if ends else End.NONE
        return self._trace.emit(Reduce(self._own(x), over, fn, end), fn)

    def mean(self, x: Value) -> Value:
        """For each node the sum, over edge types, of the mean of its incoming edges' rows."""
        pair_share = self.count(Space.DST_PAIR).apply("reciprocal")
        share = self._trace.emit(Take(pair_share.name, Space.EDGE), "share")
        return self.sum(share * x)

    def count(self, over: Space = Space.NODE, end: End = End.DST) -> Value:
        """How many edges come in at each node or destination pair, or go out (``End.SRC``)."""
        return self._trace.emit(Count(over, end=end), "count")

    def _end(self, x: Value, end: End) -> Value:
        space = Space.EDGE
        if isinstance(x, Value) and x.type.space is Space.NTYPE:
            space = Space.ETYPE
        return self._trace.emit(Take(self._own(x), space, end), f"{x.name}_{end}")

    def _own(self, x: Value) -> str:
        if not isinstance(x, Value) or x._trace is not self._trace:
            raise ProgramError(f"{x!r} is no value of this program: pass it in as a parameter")
        return x.name


def layer_program(function: Callable[..., Any]) -> Callable[..., Program]:
    """Decorator: calling the function with types and options gives a verified program.

    Raises:
        ProgramError: When called: the layer breaks a rule, a type is missing, or the result is no
            value.
    """
    signature = inspect.signature(function)
    _, *declared = signature.parameters.values()
    names = [p.name for p in declared if p.kind is not inspect.Parameter.KEYWORD_ONLY]

    @wraps(function)
    def build(*args: Type | Constant | None, **kwargs: Any) -> Program:
        trace = _Trace()
        try:
            bound = signature.bind(Graph(trace), *args, **kwargs)
        except TypeError as error:
            raise ProgramError(f"layer {function.__name__}: {error}") from None
        bound.apply_defaults()
        params: list[Param] = []
        for name in names:
            given = bound.arguments[name]
            if given is None:
                continue
            role = "constant"
            if isinstance(given, Constant):
                given = given.type
            elif isinstance(given, Type):
                role = "weight" if given.space.is_weight else "feature"
            else:
                raise ProgramError(
                    f"layer {function.__name__}: parameter {name!r} is {given!r}: give a type, "
                    "such as node(64) or etype(64, 64), or None to leave it out"
                )
            trace.types[name] = given
            params.append(Param(name, given, role))
            bound.arguments[name] = Value(trace, name)
        result = function(*bound.args, **bound.kwargs)
        values = result if isinstance(result, tuple) else (result,)
        if not values or any(not isinstance(v, Value) or v._trace is not trace for v in values):
            raise ProgramError(
                f"layer {function.__name__} returned {result!r}: return a value of the program, or "
                "a tuple of them"
            )
        results = tuple(value.name for value in values)
        program = Program(function.__name__, tuple(params), tuple(trace.lets), results)
        verify(program)
        return program

    return build
