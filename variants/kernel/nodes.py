"""The intra-operator IR: how one pass over a graph's rows is computed.

A *kernel* is a typed matrix product (`Gemm`), a sum of outer products into the rows of types
(`Outer`) or a loop nest (`Traversal`) over *buffers*. A buffer has one row for every element of a
space, in the order of the graph's index (`GraphIndex`): edges by (dst, etype, src), dst_pairs by
(dst, etype), src_pairs by (etype, src). Edge buffers always hold all edges; an inner loop over a
group of edges reads them through the group's positions. Pair buffers belong to one group.

A *launch* runs one or more kernels block by block: with several, all walk the same blocks of
destination nodes, so what one writes for a block is still in cache when the next reads it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from hetune.variants.program.nodes import End, Space, Type


class Element(StrEnum):
    """What buffers are made of. Kernels compute in float32, and round when they store."""

    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"

    @property
    def nbytes(self) -> int:
        """Bytes of one."""
        return 4 if self is Element.FLOAT32 else 2


@dataclass(frozen=True, slots=True)
class Buffer:
    """A matrix: rows of ``type.space`` and ``type.group``, row-major, contiguous.

    Rows of bfloat16 hold a multiple of 32 elements, in an order that each backend has of its own
    (the interpreter's is ascending): kernels store each once, and read it as a value or as the
    operand of a product (`check_narrow`).

    ``scratch`` names the memory of a buffer that lives only while a block of nodes runs: each
    thread has rows for one block, and nothing outlasts the launch. Buffers of one name share it
    (row shapes of one width).
    """

    name: str
    type: Type
    scratch: str = ""
    element: Element = Element.FLOAT32

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return self.type.width * self.element.nbytes


@dataclass(frozen=True, slots=True)
class Rows:
    """A loop's domain: the rows of a space, restricted to a group of edge types."""

    space: Space
    group: str = ""


# --- typed matrix product ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Direct:
    """Row ``i`` of the buffer, which lives in the product's own space (and group).

    ``fn`` is an elementwise function (with its ``const``) that the row goes through first; "" for
    none. It takes zeros to finite numbers.
    """

    buffer: str
    fn: str = ""
    const: float | None = None


@dataclass(frozen=True, slots=True)
class Gather:
    """The row of the (node) buffer at one end of the product's row."""

    buffer: str
    end: End


@dataclass(frozen=True, slots=True)
class SegmentSum:
    """The sum over a dst_pair's edges of ``weight[e] * buffer[end of e]`` (aggregate first).

    ``buffer`` is a node buffer (``end`` SRC), or an edge buffer (``end`` NONE).
    ``weight`` is an edge buffer of row shape () or (H,), or None for 1. With a weight of row
    shape (H,), the operand has row shape (H, K): with a buffer (K,) every head sums the same
    rows with its own weights; with a buffer (H, K) each head has its own columns.
    """

    buffer: str
    end: End
    weight: str | None = None


@dataclass(frozen=True, slots=True)
class Factor:
    """What a product multiplies: for each of its rows one of row shape (heads, k)."""

    x: Direct | Gather | SegmentSum
    rows: Rows
    heads: int
    k: int


@dataclass(frozen=True, slots=True)
class Gemm:
    """``out[S(i)] (+)= scale[i] * (X[i] @ w[type of i]) + bias`` for every row ``i``.

    X has row shape (heads, k) and ``w`` (heads, k, n): each head has its own product, and the
    product's row shape is (heads, n), flattened. Row type: ``w`` lives in etype (edgewise
    rows), ntype (node rows) or shared. ``scatter`` sends the row to its destination node, adding
    up there (``accumulate`` must be set; rows are edges or dst_pairs). ``scale`` is a buffer
    of the Gemm's rows, row shape () or (heads,). ``bias`` is a buffer of width heads * n
    of the rows' types (etype, or ntype on node rows) or shared, added once per row (not with
    scatter).

    ``only`` (node rows): just the nodes with an edge at that end (``SRC``: outgoing, ``DST``:
    incoming). The output rows of other nodes are left alone, or with ``fill`` become what a zero
    operand gives: the bias, or 0.

    ``tail`` (not with scatter or accumulate; ``only`` with ``fill``) is what becomes of each row,
    filled ones too, before it is stored: definitions of reads and elementwise functions, and
    stores. ``out`` then names the row as a value, and no buffer: the tail stores what lasts. Its
    values are flat, of row shape (heads * n,), or (); it stores rows, and none that the product
    reads.
    """

    out: str
    x: Direct | Gather | SegmentSum
    w: str
    rows: Rows
    heads: int
    k: int
    n: int
    scatter: bool = False
    accumulate: bool = False
    scale: str | None = None
    bias: str | None = None
    only: End = End.NONE
    fill: bool = False
    tail: tuple[Stmt, ...] = ()

    @property
    def factor(self) -> Factor:
        """Its left operand."""
        return Factor(self.x, self.rows, self.heads, self.k)


# --- sums into types --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Outer:
    """``out[type of i] (+)= scale[i] * outer(X[i], Y[i])``, summed over all rows ``i``.

    X has row shape (heads, k), Y (heads, n) and ``out`` (heads, k, n), flattened: the gradient of
    a `Gemm`'s weight. Without ``x`` it is 1, and k too: a sum of rows. ``out`` lives in etype
    (edgewise rows), ntype (node rows) or shared; types without rows have 0. ``scale`` is a buffer
    of the rows, row shape () or (m,): factors of m equal parts of Y's row, each in one head. It has
    a launch of its own.
    """

    out: str
    x: Direct | Gather | SegmentSum | None
    y: Direct | Gather | SegmentSum
    rows: Rows
    heads: int
    k: int
    n: int
    accumulate: bool = False
    scale: str | None = None

    @property
    def factors(self) -> tuple[Factor, ...]:
        """Its operands, the right one last."""
        right = Factor(self.y, self.rows, self.heads, self.n)
        if self.x is None:
            return (right,)
        return Factor(self.x, self.rows, self.heads, self.k), right


# --- traversal --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Read:
    """A row of a buffer, seen from the innermost enclosing loop.

    node buffers from edges or pairs: ``end`` says which end; from a node loop: the row itself.
    etype buffers: the row of the edge's or pair's type; ntype: of the node's; shared: row 0.
    src_pair/dst_pair buffers from an edge loop: the pair that the edge belongs to.
    Where loops nest (node, then dst_pair, then edge), an enclosing row is the current one.
    """

    buffer: str
    end: End = End.NONE


@dataclass(frozen=True, slots=True)
class Apply:
    """An elementwise function of named values (`functions.MAP_ARITY`).

    Prefix broadcasting as in the program IR.
    """

    fn: str
    args: tuple[str, ...]
    const: float | None = None


@dataclass(frozen=True, slots=True)
class Inner:
    """Inner product of two values over the last axis (as the program IR's `Dot`)."""

    x: str
    y: str


@dataclass(frozen=True, slots=True)
class FoldAxis:
    """The sum, mean, max or min over one axis of a value (as the program IR's `Fold`)."""

    x: str
    axis: int
    fn: str


Expr = Read | Apply | Inner | FoldAxis


@dataclass(frozen=True, slots=True)
class Def:
    """Names a row value; it lives in registers. ``shape`` is its row shape."""

    name: str
    shape: tuple[int, ...]
    expr: Expr


REDUCTIONS: MappingProxyType[str, float] = MappingProxyType(
    {"sum": 0.0, "prod": 1.0, "maximum": -math.inf, "minimum": math.inf, "max": -math.inf}
)
"""What accumulators do with values, and where they start. ``max`` is a softmax's: it may lose what
is no number, unlike ``maximum``."""


@dataclass(frozen=True, slots=True)
class Init:
    """Declares an accumulator of the current row, for one of `REDUCTIONS`.

    ``below`` is for backends that expand an `EdgeSoftmax` with a running maximum
    (`passes.softmax_forms`); launches have none.
    """

    name: str
    shape: tuple[int, ...]
    reduce: str
    below: str = ""


@dataclass(frozen=True, slots=True)
class Update:
    """Adds a value to an accumulator of an enclosing row (by its reduction)."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Write:
    """Writes (or adds) a value to the buffer's row of the current loop.

    From an edge loop also into edge buffers of all edges (through positions).
    """

    buffer: str
    value: str
    accumulate: bool = False


@dataclass(frozen=True, slots=True)
class ForEach:
    """An inner loop over the current row's dst_pairs or edges of a group.

    Nesting: node > dst_pair > edge, node > edge, dst_pair > edge.
    """

    rows: Rows
    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class ScoreLoop:
    """The scores of a group of edges: a loop of definitions, of which ``value`` is the score."""

    rows: Rows
    body: tuple[Def, ...]
    value: str


@dataclass(frozen=True, slots=True)
class EdgeSoftmax:
    """Each edge's share of its row: ``exp(score)`` over the sum of those of all the row's edges.

    Stands in an outermost loop over nodes or dst_pairs. ``rows`` are the edges: each has its score
    from one of ``scores``. The shares go to the edge buffer ``buffer``.

    With ``sums`` they are values called ``name`` in these loops alone, which add multiples of them
    to sums of the row that nothing else adds to, or to sums that a loop over dst_pairs stores
    (`weighted.pair_loop`). No ``buffer`` is needed then if each of them is over the edges of one
    of ``scores``; otherwise, and with such a loop, it is room for a number of each edge, which
    nobody else reads.
    """

    name: str
    shape: tuple[int, ...]
    rows: Rows
    scores: tuple[ScoreLoop, ...]
    buffer: str = ""
    sums: tuple[ForEach, ...] = ()


Stmt = Def | Init | Update | Write | ForEach | EdgeSoftmax


@dataclass(frozen=True, slots=True)
class Traversal:
    """A loop over all rows of a space with a fused body."""

    rows: Rows
    body: tuple[Stmt, ...]


Kernel = Gemm | Outer | Traversal


@dataclass(frozen=True, slots=True)
class Launch:
    """Kernels that run together, block by block.

    With more than one kernel all must be *node-blocked*: products and loops whose rows are nodes,
    or dst_pairs or edges (blocked by destination). No kernel may then read, at a source node or a
    src_pair, what the same launch wrote.
    ``buffers`` are all buffers that the kernels name.
    """

    kernels: tuple[Kernel, ...]
    buffers: tuple[Buffer, ...]

    def type_of(self, name: str) -> Type:
        """The type of a buffer."""
        return self.buffer(name).type

    def buffer(self, name: str) -> Buffer:
        """The buffer of a name."""
        for buffer in self.buffers:
            if buffer.name == name:
                return buffer
        raise KeyError(name)


# --- schedules --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Schedule:
    """How a launch is tiled and shared out; one for the whole launch.

    Attributes:
        block_nodes: Largest number of destination nodes in a block, on average (node-blocked
            launches), the unit that threads take and that should stay in a core's own cache.
            Small graphs are cut into smaller blocks, so that threads share evenly.
        row_tile: Rows of a Gemm's register tile. CPUs with few registers have a smaller tile.
        col_vectors: Vectors of a Gemm's register tile across columns.
        lanes: float32 elements of the widest vector used (16, 8 or 4), or as many as the CPU has.
        unroll: Edges of an innermost loop in flight.
        prefetch: How many edges (or tiles of rows, in a Gemm) ahead gathered rows are asked
            for; 0 for not at all.
    """

    block_nodes: int = 1024
    row_tile: int = 5
    col_vectors: int = 4
    lanes: int = 16
    unroll: int = 1
    prefetch: int = 16
