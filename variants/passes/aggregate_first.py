"""Aggregate first: the sum over edges before the linear map, once per (dst, etype) pair."""

from __future__ import annotations

from dataclasses import dataclass

from hetune.variants.passes.product import Product, multiply, product_of
from hetune.variants.passes.rewrite import Builder, rewrite
from hetune.variants.program.nodes import (
    ALL_EDGES,
    Einsum,
    Linear,
    Map,
    Op,
    Program,
    Space,
    Sum,
)


@dataclass(frozen=True, slots=True)
class AggregateFirst:
    """Turns ``sum_e a_e (v_e @ W[etype])`` into ``sum_pairs (sum_e a_e v_e) @ W[etype]``.

    The sum is linear, and all edges of a (dst, etype) pair share the weight. Factors that are
    constant on the pair (the mean's 1/count) move behind the product. Re-association in the sense
    of SENSEi.

    Attributes:
        group: The edges whose sums are moved.
    """

    group: str = ALL_EDGES

    def __call__(self, program: Program) -> Program:
        """Applies the pass."""
        return rewrite(program, self._rule)

    def _rule(self, builder: Builder, op: Op, hint: str) -> str | None:
        if not isinstance(op, Sum) or op.space is not Space.NODE:
            return None
        if builder.types[op.x].space is not Space.EDGE or builder.types[op.x].group != self.group:
            return None
        product = product_of(builder, op.x)
        linear = builder.op(product.core)
        if not isinstance(linear, Linear) or builder.types[linear.w].space is not Space.ETYPE:
            return None
        rows, weight = _weighted(builder, product, linear)
        aggregated = builder.emit(Sum(rows, Space.DST_PAIR), f"{hint}_pair")
        transformed = builder.emit(Linear(aggregated, weight), product.core)
        scaled = multiply(builder, transformed, product.pair_factors)
        return builder.emit(Sum(scaled, Space.NODE), hint)


def _weighted(builder: Builder, product: Product, linear: Linear) -> tuple[str, str]:
    """The rows to add up, and the weight for the sums: per head if a factor has heads."""
    rows, weight = linear.x, linear.w
    for factor in product.edge_factors:
        if builder.types[factor].shape and len(builder.types[rows].shape) == 1:
            rows = builder.emit(Map("outer", (factor, rows)), f"{rows}_heads")
            weight = builder.emit(Einsum("khd->hkd", (weight,)), f"{weight}_heads")
        else:
            rows = builder.emit(Map("mul", (factor, rows)), f"{rows}_weighted")
    return rows, weight
