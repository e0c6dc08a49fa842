"""Linear maps as products of rows and weights: which rows they read, and at which nodes."""

from __future__ import annotations

from hetune.variants.kernel.nodes import Direct, Gather, Gemm, Rows, SegmentSum
from hetune.variants.plan.context import Context
from hetune.variants.plan.facts import zero_without_edges
from hetune.variants.program.nodes import End, Linear, Map, Reduce, Space, Take


def product(
    lowering: Context,
    out: str,
    value: str,
    op: Linear,
    *,
    bias: str | None = None,
    scale: str | None = None,
    scatter: bool = False,
    accumulate: bool = False,
) -> Gemm:
    """The kernel of a linear map; the buffers that it reads are filled before.

    Args:
        lowering: What is lowered.
        out: The buffer that it writes.
        value: The linear map's name, whose rows it computes.
        op: The linear map.
        bias: Weights to add to each row.
        scale: A buffer with a factor for each row, or each row and head.
        scatter: Whether rows of destination pairs are added up at nodes, in ``out``; such a
            product accumulates.
        accumulate: Whether it adds to what ``out`` holds.
    """
    x, w = lowering.types[op.x], lowering.types[op.w]
    heads = x.shape[0] if len(x.shape) == 2 else 1
    k = x.shape[-1]
    rows = Rows(lowering.types[value].space, lowering.types[value].group)
    factor = operand(lowering, op.x)
    weight = lowering.buffer(op.w)
    only, fill = End.NONE, False
    if rows.space is Space.NODE:
        only, fill = _active(lowering, out, op.x)
    accumulate = accumulate or scatter
    return Gemm(
        out,
        factor,
        weight,
        rows,
        heads,
        k,
        w.width // (heads * k),
        scatter=scatter,
        accumulate=accumulate,
        scale=scale,
        bias=bias,
        only=only,
        fill=fill and not accumulate,
    )


def biased_product(lowering: Context, rows: str, bias: str) -> Linear | None:
    """The product of edge or pair rows that a kernel can add this bias to."""
    op, kind, added = lowering.ops.get(rows), lowering.types[rows], lowering.types[bias]
    if not isinstance(op, Linear) or not kind.space.is_edgewise:
        return None
    fits = added.space is Space.ETYPE and added.shape == kind.shape
    return op if fits and lowering.only_user(rows) else None


def _active(lowering: Context, out: str, rows: str) -> tuple[End, bool]:
    """The nodes that a product of node rows is needed for, and whether others are filled.

    Rows that are only ever taken to edges are needed at nodes with edges at that end. Where
    the operand is zero at nodes without incoming edges, so is the product.
    """
    users = (user.op for user in lowering.users[out])
    ends = {op.end if isinstance(op, Take) else End.NONE for op in users}
    if len(ends) == 1 and out not in lowering.program.results and End.NONE not in ends:
        return ends.pop(), False
    return (End.DST, True) if zero_without_edges(lowering.ops, rows) else (End.NONE, False)


def edge_rows(lowering: Context, name: str) -> str:
    """The buffer of a value's rows; that of all edges, if those of a group are taken from it."""
    narrowed = lowering.ops.get(name)
    if isinstance(narrowed, Take) and lowering.types[narrowed.x].space is Space.EDGE:
        name = narrowed.x
    return lowering.buffer(name)


def operand(lowering: Context, name: str) -> Direct | Gather | SegmentSum:
    """The rows that a product multiplies; the buffers that they come from are filled before."""
    match lowering.ops.get(name):
        case Take(x=x, end=end) if lowering.types[x].space is Space.NODE:
            return Gather(lowering.buffer(x), end)
        case Reduce(x=x, space=Space.DST_PAIR, fn="sum") if _fuses(lowering, name, x):
            if (segment := _segment_sum(lowering, x)) is not None:
                return segment
    return Direct(lowering.buffer(name))


def _fuses(lowering: Context, name: str, rows: str) -> bool:
    """Sums of outer products are always fused: only the product's kernel has room for them."""
    op = lowering.ops.get(rows)
    is_outer = isinstance(op, Map) and op.fn == "outer"
    return is_outer or (lowering.fuse_sums and lowering.only_user(name))


def _segment_sum(lowering: Context, rows: str) -> SegmentSum | None:
    """The operand that adds up edge rows, if they are (weighted) rows of a buffer."""
    types, ops = lowering.types, lowering.ops
    weight: str | None = None
    op = ops.get(rows)
    if isinstance(op, Map) and op.fn in ("mul", "outer"):
        weight, rows = op.args
        axes = len(types[rows].shape) + (op.fn == "outer")
        kind = types[weight]
        if kind.space is not Space.EDGE or len(kind.shape) >= axes:
            return None
    take = ops.get(rows)
    if not isinstance(take, Take) or types[take.x].space is not Space.NODE:
        return None
    if take.end is not End.SRC:
        return None
    if weight is not None:
        weight = edge_rows(lowering, weight)
    return SegmentSum(lowering.buffer(take.x), End.SRC, weight)
