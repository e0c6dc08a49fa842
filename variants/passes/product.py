"""Messages as products: the row that is sent, and the scalars that weight it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hetune.variants.program.builder import Builder
from hetune.variants.program.nodes import End, Linear, Map, Op, Space, Take, Type


@dataclass(frozen=True, slots=True)
class Product:
    """An edge value ``edge_factors * pair_factors * core``.

    ``edge_factors`` are edge values with fewer axes than the core, ``pair_factors`` dst_pair
    values that were copied to the edges.
    """

    core: str
    edge_factors: tuple[str, ...]
    pair_factors: tuple[str, ...]


def product_of(builder: Builder, name: str) -> Product:
    """Takes a chain of ``mul`` apart. What is no product is its own core."""
    chain = multiply_chain(builder.ops, builder.types, name)
    edge_factors: list[str] = []
    pair_factors: list[str] = []
    for factor in chain.factors:
        take = builder.op(factor)
        if isinstance(take, Take) and builder.types[take.x].space is Space.DST_PAIR:
            pair_factors.append(take.x)
        else:
            edge_factors.append(factor)
    return Product(chain.core, tuple(edge_factors), tuple(pair_factors))


@dataclass(frozen=True, slots=True)
class Messages:
    """Edge rows ``product``, whose core is ``linear + bias``, with weights of the edge types."""

    product: Product
    linear: Linear
    bias: str | None


def messages_of(builder: Builder, name: str) -> Messages | None:
    """Edge rows whose sum may come before their linear map, as such; None if it may not."""
    product = product_of(builder, name)
    found = _linear_of(builder, product.core)
    if found is None or not _may_sum_first(builder, product, found[0]):
        return None
    return Messages(product, *found)


def has_heads(builder: Builder, product: Product) -> bool:
    """Whether an edge factor weights each head by a number of its own."""
    return any(builder.types[factor].shape for factor in product.edge_factors)


def _linear_of(builder: Builder, name: str) -> tuple[Linear, str | None] | None:
    """The edge types' linear map that a value is, and the bias that is added to it, if any."""
    op, bias = builder.op(name), None
    if isinstance(op, Map) and op.fn == "add":
        rows, bias = op.args
        if builder.types[bias].space is not Space.ETYPE:
            return None
        if builder.types[rows].shape != builder.types[name].shape:
            return None  # each row is spread out over one of more axes
        op = builder.op(rows)
    if not isinstance(op, Linear) or builder.types[op.w].space is not Space.ETYPE:
        return None
    return op, bias


def _may_sum_first(builder: Builder, product: Product, linear: Linear) -> bool:
    """Whether there is a kernel for the sum.

    Where heads that share a row each weight it, one sums up rows of sources as often as there are
    heads (`SegmentSum`). No value holds a row for each head of an edge.
    """
    if not has_heads(builder, product) or len(builder.types[linear.x].shape) > 1:
        return True
    rows = builder.op(linear.x)
    return (
        isinstance(rows, Take)
        and rows.end is End.SRC
        and builder.types[rows.x].space is Space.NODE
        and len(builder.types[linear.w].shape) == 3
        and any(builder.types[factor].space is Space.EDGE for factor in product.edge_factors)
    )


def multiply(builder: Builder, name: str, factors: tuple[str, ...]) -> str:
    """``name`` times each of the factors."""
    for factor in factors:
        name = builder.emit(Map("mul", (factor, name)), f"{name}_scaled")
    return name


@dataclass(frozen=True, slots=True)
class MultiplyChain:
    """A value as ``factors * core``, all living in one space."""

    core: str
    factors: tuple[str, ...]


def multiply_chain(ops: Mapping[str, Op], types: Mapping[str, Type], name: str) -> MultiplyChain:
    """Takes a chain of ``mul`` by lower-rank factors apart."""
    factors: list[str] = []
    while isinstance(op := ops.get(name), Map) and op.fn == "mul":
        first, second = sorted(op.args, key=lambda a: len(types[a].shape))
        if len(types[first].shape) == len(types[second].shape):
            break
        factors.append(first)
        name = second
    return MultiplyChain(name, tuple(factors))
