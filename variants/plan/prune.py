"""Input-oblivious pruning: plans that another one beats whatever the graph (SENSEi's rules)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Container, Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from hetune.variants.kernel.nodes import (
    Def,
    EdgeSoftmax,
    ForEach,
    Gemm,
    Inner,
    Outer,
    Rows,
    Stmt,
    Traversal,
)
from hetune.variants.plan.nodes import Plan
from hetune.variants.program.nodes import Space

_Key = TypeVar("_Key", bound=Hashable)

_NEVER_FEWER = {
    Space.NODE: (Space.NODE,),
    Space.SRC_PAIR: (Space.SRC_PAIR, Space.EDGE),
    Space.DST_PAIR: (Space.DST_PAIR, Space.EDGE),
    Space.EDGE: (Space.EDGE,),
}
"""For each space those that have at least as many rows on every graph."""


@dataclass(frozen=True, slots=True)
class Cost:
    """So many operations for each row of a domain, in a matrix product or a dot product."""

    is_matrix: bool
    rows: Rows
    per_row: int

    def fits_in(self, other: Cost) -> bool:
        """Whether this costs at most as much as the other, on every graph."""
        return (
            (other.is_matrix or not self.is_matrix)
            and not self._is_apart_from(other)
            and other.rows.space in _NEVER_FEWER[self.rows.space]
            and other.rows.group in ("", self.rows.group)
            and self.per_row <= other.per_row
        )

    def _is_apart_from(self, other: Cost) -> bool:
        """Whether this reads source rows in a walk of its own, and the other where edges do.

        Operations are not all then: the walk is one more way through the rows of the graph.
        """
        if self.is_matrix or other.is_matrix:
            return False
        return self.rows.space is Space.SRC_PAIR and other.rows.space is Space.EDGE


def undominated(plans: Mapping[_Key, Plan], kept: Container[_Key] = ()) -> dict[_Key, Plan]:
    """The plans of which no other one is a cheaper version, and those that are kept anyway.

    One plan is a cheaper version of another if each of its products fits into a different product
    of the other (a dot product fits where a matrix product was, pairs fit where edges were), but
    not the other way round.
    """
    costs = {name: tuple(costs_of(plan)) for name, plan in plans.items()}
    different = tuple(dict.fromkeys(costs.values()))
    beaten = {large for large in different if any(_cheaper(small, large) for small in different)}
    return {name: plan for name, plan in plans.items() if name in kept or costs[name] not in beaten}


def costs_of(plan: Plan) -> Iterator[Cost]:
    """The products of a plan's kernels."""
    for launch in plan.launches:
        types = {buffer.name: buffer.type for buffer in launch.buffers}
        for kernel in launch.kernels:
            match kernel:
                case (
                    Gemm(rows=rows, heads=heads, k=k, n=n) | Outer(rows=rows, heads=heads, k=k, n=n)
                ):
                    yield Cost(True, rows, heads * k * n)
                case Traversal(rows=rows, body=body):
                    shapes = {name: kind.shape for name, kind in types.items()}
                    yield from _dots(rows, body, shapes)


def _dots(rows: Rows, body: tuple[Stmt, ...], shapes: dict[str, tuple[int, ...]]) -> Iterator[Cost]:
    for statement in body:
        match statement:
            case Def(name=name, shape=shape, expr=expr):
                shapes[name] = shape
                if isinstance(expr, Inner):
                    longest = max((shapes[expr.x], shapes[expr.y]), key=len)
                    yield Cost(False, rows, math.prod(longest))
            case ForEach(rows=inner, body=statements):
                yield from _dots(inner, statements, shapes)
            case EdgeSoftmax(scores=scores, sums=sums):
                for part in scores:
                    yield from _dots(part.rows, part.body, shapes)
                yield from _dots(rows, sums, shapes)


def _cheaper(small: tuple[Cost, ...], large: tuple[Cost, ...]) -> bool:
    # If each embedded into the other, they would be equal.
    fits = len(small) <= len(large) and _embeds(small, large)
    return fits and Counter(small) != Counter(large)


def _embeds(small: tuple[Cost, ...], large: tuple[Cost, ...]) -> bool:
    """Whether every cost finds a cost of its own in the other plan.

    Greedy, most demanding first, each into the least that it fits into: it may miss an embedding,
    and then a plan is kept that could have gone.
    """
    free = sorted(large, key=lambda cost: (cost.is_matrix, cost.per_row))
    for cost in sorted(small, key=lambda cost: (cost.is_matrix, cost.per_row), reverse=True):
        match = next((other for other in free if cost.fits_in(other)), None)
        if match is None:
            return False
        free.remove(match)
    return True
