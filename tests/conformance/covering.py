"""Which variants the C++ backend runs in CI: each distinct launch costs a third of a second.

By default: at widths 7 and 64 with two heads, or one where there are no more, every plan; at the
other widths and with other numbers of heads each plan at one width, taking turns, so that every
layer meets every width. Always at every block size, which kernels do not depend on.
HETUNE_FULL_MATRIX=1, as `make test-full` sets it, runs every plan at every width with every number
of heads (some 900 kernels: five minutes on two cores).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from tests.full import FULL

from hetune.variants.frontend.adapt import adapt
from hetune.variants.plan.variants import BLOCK_NODES, variants_of
from hetune.variants.testing.layers import LAYERS, WIDTHS

from .cases import SHAPES, matrix_graph
from .pyg import make

DENSE = (7, 64)
"""Widths at which every plan runs."""


def chosen(name: str, width: int, heads: int) -> Callable[[str], bool]:
    """Which variants of a layer run, by id."""
    if FULL:
        return lambda variant: True
    kept = None if _is_dense(name, width, heads) else _turns(name, heads)[width]

    def keep(variant: str) -> bool:
        return kept is None or variant.rpartition("/")[0] in kept

    return keep


def each_plan(variant: str) -> bool:
    """One block size for each plan: for the interpreter, and for graphs of a single block."""
    return variant.endswith(f"/b{BLOCK_NODES[0]}")


def _is_dense(name: str, width: int, heads: int) -> bool:
    return width in DENSE and heads == min(2, max(LAYERS[name].heads))


@cache
def _turns(name: str, heads: int) -> dict[int, set[str]]:
    widths = [width for width in WIDTHS if not _is_dense(name, width, heads)]
    start = SHAPES.index((name, heads))
    plans = {width: _plans(name, width, heads) for width in widths}
    found: dict[int, set[str]] = {width: set() for width in widths}
    for turn in range(max(len(widths), *map(len, plans.values()))):
        width = widths[(start + turn) % len(widths)]
        found[width].add(plans[width][turn % len(plans[width])])
    return found


def _plans(name: str, width: int, heads: int) -> list[str]:
    """Which plans there are depends on the width."""
    program = adapt(make(name, matrix_graph(), width, heads)).program
    return list(dict.fromkeys(v.id.rpartition("/")[0] for v in variants_of(program)))
