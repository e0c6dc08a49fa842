"""Messages as products: the row that is sent, and the scalars that weight it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hetune.variants.passes.rewrite import Builder
from hetune.variants.program.nodes import Linear, Map, Op, Space, Take, Type


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


def linear_of(builder: Builder, name: str) -> tuple[Linear, str | None] | None:
    """The edge types' linear map that a value is, and the bias that is added to it, if any."""
    op, bias = builder.op(name), None
    if isinstance(op, Map) and op.fn == "add":
        rows, bias = op.args
        if builder.types[bias].space is not Space.ETYPE:
            return None
        op = builder.op(rows)
    if not isinstance(op, Linear) or builder.types[op.w].space is not Space.ETYPE:
        return None
    return op, bias


def multiply(builder: Builder, name: str, factors: tuple[str, ...]) -> str:
    """``name`` times each of the factors."""
    for factor in factors:
        name = builder.emit(Map("mul", (factor, name)), f"{name}_scaled")
    return name


@dataclass(frozen=True, slots=True)
class Chain:
    """A value as ``factors * core``, all living in one space."""

    core: str
    factors: tuple[str, ...]


def multiply_chain(ops: Mapping[str, Op], types: Mapping[str, Type], name: str) -> Chain:
    """Takes a chain of ``mul`` by lower-rank factors apart."""
    factors: list[str] = []
    while isinstance(op := ops.get(name), Map) and op.fn == "mul":
        first, second = sorted(op.args, key=lambda a: len(types[a].shape))
        if len(types[first].shape) == len(types[second].shape):
            break
        factors.append(first)
        name = second
    return Chain(name, tuple(factors))
