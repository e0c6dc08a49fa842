"""Aggregate first: the sum over edges before the linear map, per (dst, etype) pair or node."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hetune.variants.passes.product import (
    Product,
    has_heads,
    messages_of,
    multiply,
    multiply_chain,
)
from hetune.variants.passes.rewrite import rewrite
from hetune.variants.program.builder import Builder
from hetune.variants.program.nodes import (
    ALL_EDGES,
    Count,
    Einsum,
    End,
    Linear,
    Map,
    Op,
    Program,
    Reduce,
    Reshape,
    Space,
    Take,
    is_sum,
)


@dataclass(frozen=True, slots=True)
class AggregateFirst:
    """Turns ``sum_e a_e (v_e @ W[etype])`` into ``sum_pairs (sum_e a_e v_e) @ W[etype]``.

    The sum is linear, and all edges of a (dst, etype) pair share the weight. Factors that are
    constant on the pair (the mean's 1/count) move behind the product. A bias of the edge type is
    added as often as the ``a_e`` of a pair add up to. If all edges share the weight, the sums are
    those of nodes: ``(sum_e a_e v_e) @ W``. Re-association in the sense of SENSEi.

    Attributes:
        group: The edges whose sums are moved.
    """

    group: str = ALL_EDGES

    def __call__(self, program: Program) -> Program:
        """Applies the pass."""
        return rewrite(program, self._rule)

    def _rule(self, builder: Builder, op: Op, hint: str) -> str | None:
        if not isinstance(op, Reduce) or not is_sum(op, Space.NODE):
            return None
        if builder.types[op.x].space is not Space.EDGE or builder.types[op.x].group != self.group:
            return None
        found = messages_of(builder, op.x)
        if found is None:
            return _shared(builder, op, hint)
        product, linear, bias = found.product, found.linear, found.bias
        rows, weight = _weighted(builder, product, linear)
        aggregated = _summed(builder, rows, Space.DST_PAIR, End.NONE, f"{hint}_pair")
        transformed = builder.emit(Linear(aggregated, weight), product.core)
        total = _to_nodes(builder, transformed, product, hint)
        if bias is None:
            return total
        shares = _shares(builder, product, linear, hint)
        shifts = builder.emit(Map("mul", (shares, bias)), f"{product.core}_bias")
        return builder.emit(Map("add", (total, _to_nodes(builder, shifts, product, hint))), hint)


def _shared(builder: Builder, op: Reduce, hint: str) -> str | None:
    """The sum of rows that meet one weight, on the edges or at nodes before, as one product."""
    chain = multiply_chain(builder.ops, builder.types, op.x)
    linear = _shared_linear(builder, chain.core)
    if linear is None:
        return None
    product = Product(chain.core, chain.factors, ())
    is_wide = len(builder.types[linear.x].shape) > 1
    if has_heads(builder, product) and not is_wide and len(builder.types[linear.w].shape) != 3:
        return None
    rows, weight = _weighted(builder, product, linear)
    summed = _summed(builder, rows, Space.NODE, End.DST, f"{hint}_rows")
    return builder.emit(Linear(summed, weight), hint)


def _shared_linear(builder: Builder, name: str) -> Linear | None:
    """The linear map of edge rows that a value is, whose weight all edges share."""
    op = builder.op(name)
    if isinstance(op, Linear) and builder.types[op.w].space is Space.SHARED:
        return op
    if not isinstance(op, Take) or builder.types[op.x].space is not Space.NODE:
        return None
    of_nodes = builder.op(op.x)
    if not isinstance(of_nodes, Linear) or builder.types[of_nodes.w].space is not Space.SHARED:
        return None
    return Linear(builder.emit(replace(op, x=of_nodes.x), f"{of_nodes.x}_edge"), of_nodes.w)


def _summed(builder: Builder, rows: str, space: Space, end: End, hint: str) -> str:
    """The sums of edge rows, which are reshaped afterwards."""
    op = builder.op(rows)
    if isinstance(op, Reshape):
        return builder.emit(replace(op, x=_summed(builder, op.x, space, end, hint)), f"{hint}_as")
    return builder.emit(Reduce(rows, space, end=end), hint)


def _to_nodes(builder: Builder, pairs: str, product: Product, hint: str) -> str:
    """The sum into nodes of pair rows, with the factors that stayed behind the product."""
    rows = multiply(builder, pairs, product.pair_factors)
    return builder.emit(Reduce(rows, Space.NODE, end=End.DST), hint)


def _shares(builder: Builder, product: Product, linear: Linear, hint: str) -> str:
    """How much of its bias a pair gets: the sum of its edges' factors, or their number."""
    weights = [f for f in product.edge_factors if builder.types[f].space.is_weight]
    of_edges = [f for f in product.edge_factors if f not in weights]
    if of_edges:
        share = multiply(builder, of_edges[0], tuple(of_edges[1:]))
        shares = builder.emit(Reduce(share, Space.DST_PAIR), f"{hint}_shares")
    else:
        group = builder.types[linear.x].group
        shares = builder.emit(Count(Space.DST_PAIR, group), f"{hint}_count")
    return multiply(builder, shares, tuple(weights))


def _weighted(builder: Builder, product: Product, linear: Linear) -> tuple[str, str]:
    """The rows to add up, and the weight for the sums: per head if a factor has heads."""
    rows, factors = linear.x, product.edge_factors
    if has_heads(builder, product) and len(builder.types[rows].shape) == 1:
        factor = multiply(builder, factors[0], factors[1:])
        rows = builder.emit(Map("outer", (factor, rows)), f"{rows}_heads")
        return rows, builder.emit(Einsum("khd->hkd", (linear.w,)), f"{linear.w}_heads")
    for factor in factors:
        rows = builder.emit(Map("mul", (factor, rows)), f"{rows}_weighted")
    return rows, linear.w
