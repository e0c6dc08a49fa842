"""The inter-operator IR: what a layer computes, without layout or schedule.

A program is a list of values in single-assignment form. Each value has one row for every
element of a *space* (nodes, edges, pairs, types, or one shared row), and every row has the
same shape. Literature: data residency (Graphiler), graph types S/D/E/P (Seastar),
materialization scheme (Hector).

Shapes are row shapes: ``node[4,16]`` is a tensor of shape ``[N, 4, 16]``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum


class Space(StrEnum):
    """What a value has a row for."""

    NODE = "node"
    EDGE = "edge"
    SRC_PAIR = "src_pair"
    """Distinct (source node, edge type) pairs that have an edge."""
    DST_PAIR = "dst_pair"
    """Distinct (destination node, edge type) pairs that have an edge."""
    SOURCE = "source"
    """Nodes that edges come from, where these are others than the nodes that they lead to."""
    NTYPE = "ntype"
    ETYPE = "etype"
    SHARED = "shared"
    """A single row."""

    @property
    def is_weight(self) -> bool:
        """Whether rows are counted by types alone, never by nodes or edges."""
        return self._value_ in _WEIGHTS

    @property
    def is_edgewise(self) -> bool:
        """Whether every row belongs to exactly one edge type."""
        return self._value_ in _EDGEWISE


_WEIGHTS = frozenset(("ntype", "etype", "shared"))
_EDGEWISE = frozenset(("edge", "src_pair", "dst_pair"))


class End(StrEnum):
    """Which end of an edge a row is taken from; ``NONE`` where there is only one way."""

    SRC = "src"
    DST = "dst"
    NONE = "-"


ALL_EDGES = ""
"""The group of all edge types. Other groups are named sets of edge types: see `Group`."""


class Rule(StrEnum):
    """Which edge types a group holds; decided of each on every graph. Kernels know its value."""

    FEWER_SRC = "s"
    """Those with fewer (src, etype) than (dst, etype) pairs."""
    FEWER_DST = "d"
    """All others: ties go to the destination, which needs no rows of its own."""
    REVERSED_SRC = "rs"
    """Those that `FEWER_SRC` holds of the reversed graph."""
    REVERSED_DST = "rd"
    """Those that `FEWER_DST` holds of the reversed graph: ties go to the source."""

    @property
    def reversed(self) -> Rule:
        """The rule that holds the same edge types of the reversed graph."""
        return _REVERSED[self]


_REVERSED = {
    Rule.FEWER_SRC: Rule.REVERSED_SRC,
    Rule.FEWER_DST: Rule.REVERSED_DST,
    Rule.REVERSED_SRC: Rule.FEWER_SRC,
    Rule.REVERSED_DST: Rule.FEWER_DST,
}
COMPLEMENTS = ((Rule.FEWER_SRC, Rule.FEWER_DST), (Rule.REVERSED_DST, Rule.REVERSED_SRC))
"""Rules that part the edge types: those that have few pairs at the source, and all others."""


@dataclass(frozen=True, slots=True)
class Group:
    """A set of edge types; without a rule, whoever runs the program says which."""

    name: str
    rule: Rule | None = None


@dataclass(frozen=True, slots=True)
class Type:
    """Space, group of edge types (edgewise spaces only) and row shape of a value."""

    space: Space
    shape: tuple[int, ...] = ()
    group: str = ALL_EDGES

    @property
    def width(self) -> int:
        """Elements in a row."""
        return math.prod(self.shape)

    def with_shape(self, *shape: int) -> Type:
        """The same rows with another row shape."""
        return replace(self, shape=shape)


@dataclass(frozen=True, slots=True)
class Take:
    """Copies rows to a finer space: ``out[i] = x[row of x that i belongs to]``.

    `ends_between` has the spaces that rows move between, and `Reduce` is the way back.
    """

    x: str
    space: Space
    end: End = End.NONE
    group: str = ALL_EDGES


@dataclass(frozen=True, slots=True)
class Linear:
    """A linear map with the weight of the row's type.

    ``x`` has row shape (K,) and ``w`` (K, *out): out row shape is ``out``. Or, per head,
    ``x`` (H, K) and ``w`` (H, K, D): out (H, D). ``w`` lives in etype (``x`` edgewise), ntype
    (``x`` on nodes) or shared.
    """

    x: str
    w: str


@dataclass(frozen=True, slots=True)
class Map:
    """An elementwise function (`functions.MAP_ARITY`).

    The shorter row shape must be a prefix of the longer one.

    ``mul`` of (H,) and (H, D) scales each head. A value in a weight space joins any row as if
    taken there (etype needs edgewise rows; ntype needs nodes).
    """

    fn: str
    args: tuple[str, ...]
    const: float | None = None


@dataclass(frozen=True, slots=True)
class Dot:
    """Inner product over the last axis of two rows: (H, D) . (H, D) -> (H,).

    Where ``y`` has one axis less than ``x`` it is used for every leading row of ``x`` and
    vice versa: (D,) . (H, D) -> (H,). Weight-space rules as for `Map`.
    """

    x: str
    y: str


def ends_between(coarse: Space, fine: Space) -> tuple[End, ...]:
    """By which ends rows move between two spaces; none where they do not.

    One rule for both directions: `Take` copies rows from the coarse space to the fine one, and
    `Reduce` brings them back.
    """
    match coarse, fine:
        case (Space.NODE, Space.EDGE) | (Space.NTYPE, Space.ETYPE):
            return End.SRC, End.DST
        case Space.NODE, Space.DST_PAIR:
            return (End.DST,)
        case (Space.NODE | Space.SOURCE, Space.SRC_PAIR) | (Space.SOURCE, Space.EDGE):
            return (End.SRC,)
        case (Space.NTYPE, Space.NODE) | (Space.EDGE, Space.EDGE):
            return (End.NONE,)
        case Space.ETYPE, _ if fine.is_edgewise:
            return (End.NONE,)
        case _, Space.EDGE if coarse.is_edgewise:
            return (End.NONE,)
        case Space.SHARED, _ if fine is not Space.SHARED:
            return (End.NONE,)
    return ()


@dataclass(frozen=True, slots=True)
class Reduce:
    """Brings rows together in a coarser space: the transpose of `Take`, and each one's gradient.

    ``out[i]`` is the sum (maximum, minimum, product) of all rows that `Take` would copy row ``i``
    to. Where there are none it is 0, or 1 for a product. Rows of a group of edges that go to all
    edges leave the other edges' rows so.
    """

    x: str
    space: Space
    fn: str = "sum"
    end: End = End.NONE


@dataclass(frozen=True, slots=True)
class Softmax:
    """Softmax of edge scores over the edges that share a node (``NODE``) or a ``DST_PAIR``."""

    x: str
    over: Space


@dataclass(frozen=True, slots=True)
class Count:
    """How many edges come in at a node or dst_pair, or go out at a node or src_pair (``SRC``).

    As a float; row shape ().
    """

    space: Space
    group: str = ALL_EDGES
    end: End = End.DST


@dataclass(frozen=True, slots=True)
class Einsum:
    """A product of weights with weights, row by row of a weight space.

    ``spec`` is an einsum over row axes, e.g. ``"khd,hd->hk"``. Done once per set of
    parameters, not once per run.
    """

    spec: str
    args: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Merge:
    """Edge rows put together from groups of edges that do not overlap and leave none out.

    ``parts`` live in ``edge@g`` for different groups g, with equal row shapes; the result lives in
    ``edge``, every row coming from the one part whose group holds the edge's type.
    """

    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Reshape:
    """The same elements of each row under another row shape of the same width; moves nothing."""

    x: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Fold:
    """The sum, mean, maximum or minimum over one axis of each row, which goes."""

    x: str
    axis: int
    fn: str = "sum"


@dataclass(frozen=True, slots=True)
class Concat:
    """Rows side by side on their last axis; other axes are equal. Weights join as for `Map`."""

    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Slice:
    """Elements ``start`` to ``stop``, not included, of each row's last axis."""

    x: str
    start: int
    stop: int


Op = (
    Take | Linear | Map | Dot | Reduce | Softmax | Count | Einsum | Merge
    | Reshape | Fold | Concat | Slice
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Param:
    """An input of the program: per-run ``feature``, ``constant``, or a ``weight`` of the layer.

    Features and constants have rows of nodes, of sources, or of edges in the graph's own order.
    Constants depend on the graph alone: what is computed of them alone is computed once per graph.
    """

    name: str
    type: Type
    role: str = "weight"


@dataclass(frozen=True, slots=True)
class Let:
    """One value of a program."""

    name: str
    type: Type
    op: Op


@dataclass(frozen=True, slots=True)
class Program:
    """A layer's meaning.

    Attributes:
        name: For readers.
        params: What it is given.
        lets: Its values, in order: each reads earlier ones only.
        results: Names of what it returns, in any space.
        groups: The sets of edge types that the body refers to.
    """

    name: str
    params: tuple[Param, ...]
    lets: tuple[Let, ...]
    results: tuple[str, ...]
    groups: tuple[Group, ...] = ()

    @property
    def result(self) -> str:
        """What a program of one result returns."""
        (result,) = self.results
        return result

    def type_of(self, name: str) -> Type:
        """The type of a parameter or value."""
        return self.types[name]

    @property
    def types(self) -> dict[str, Type]:
        """All names with their types."""
        values: tuple[Param | Let, ...] = (*self.params, *self.lets)
        return {value.name: value.type for value in values}


def is_sum(op: Reduce, space: Space) -> bool:
    """Whether rows are summed up at their edges' destination, into a space."""
    return op.fn == "sum" and op.space is space and op.end is not End.SRC


def operands(op: Op) -> tuple[str, ...]:
    """The names that an operator reads."""
    match op:
        case Take(x=x) | Reduce(x=x) | Softmax(x=x) | Reshape(x=x) | Fold(x=x) | Slice(x=x):
            return (x,)
        case Linear(x=x, w=w):
            return (x, w)
        case Dot(x=x, y=y):
            return (x, y)
        case Map(args=args) | Einsum(args=args):
            return args
        case Merge(parts=parts) | Concat(parts=parts):
            return parts
        case Count():
            return ()


def with_operands(op: Op, names: tuple[str, ...]) -> Op:
    """The same operator over other names, in the order of `operands`."""
    if names == operands(op):
        return op
    match op:
        case Take() | Reduce() | Softmax() | Reshape() | Fold() | Slice():
            return replace(op, x=names[0])
        case Linear():
            return replace(op, x=names[0], w=names[1])
        case Dot():
            return replace(op, x=names[0], y=names[1])
        case Map() | Einsum():
            return replace(op, args=names)
        case Merge() | Concat():
            return replace(op, parts=names)
        case Count():
            return op


def without_operands(op: Op) -> Op:
    """Equal for operators that differ in their operands alone."""
    return with_operands(op, ("",) * len(operands(op)))
