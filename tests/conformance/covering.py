"""Which variants the C++ backend runs in CI: each distinct launch costs a third of a second.

By default: at widths 7 and 64 with two heads, or one where there are no more, every plan. Every
layer meets every width, where numbers of heads take turns: with every plan in one pass, and each
other plan at one of them. Always at every block size, which kernels do not depend on.
HETUNE_FULL_MATRIX=1, as `make test-full` sets it, runs every plan at every width with every number
of heads (some 900 kernels: five minutes on two cores).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from tests.full import FULL

from hetune.variants.frontend.adapt import adapt
from hetune.variants.plan.choices import LoweringForm
from hetune.variants.plan.variants import BLOCK_NODES, Variant, variants_of
from hetune.variants.testing.layers import LAYERS, WIDTHS

from .cases import matrix_graph
from .pyg import make

DENSE = (7, 64)
"""Widths at which every plan runs."""


def chosen(name: str, width: int, heads: int) -> Callable[[Variant], bool]:
    """Which variants of a layer run."""
    if FULL:
        return lambda variant: True
    kept = None if _is_dense(name, width, heads) else _turns(name)[width, heads]

    def keep(variant: Variant) -> bool:
        in_one_pass = variant.choices.plan.form is LoweringForm.ONE_PASS
        return kept is None or in_one_pass or variant.plan_id in kept

    return keep


def shapes_of(name: str) -> list[tuple[int, int]]:
    """Widths and numbers of heads of a layer for which variants are chosen."""
    known = LAYERS[name].heads
    return [
        (width, heads)
        for place, width in enumerate(WIDTHS)
        for heads in known
        if FULL or _is_dense(name, width, heads) or heads == known[place % len(known)]
    ]


def each_plan(variant: Variant) -> bool:
    """One block size for each plan: for the interpreter, and for graphs of a single block."""
    choices = variant.choices
    return choices.plan.scores_edges or choices.schedule.block_nodes == BLOCK_NODES[0]


def _is_dense(name: str, width: int, heads: int) -> bool:
    return width in DENSE and heads == min(2, max(LAYERS[name].heads))


@cache
def _turns(name: str) -> dict[tuple[int, int], set[str]]:
    shapes = [shape for shape in shapes_of(name) if not _is_dense(name, *shape)]
    plans = {shape: _plans(name, *shape) for shape in shapes}
    found: dict[tuple[int, int], set[str]] = {shape: set() for shape in shapes}
    start = list(LAYERS).index(name)
    for turn in range(max(len(shapes), *map(len, plans.values()))):
        shape = shapes[(start + turn) % len(shapes)]
        found[shape].add(plans[shape][turn % len(plans[shape])])
    return found


def _plans(name: str, width: int, heads: int) -> list[str]:
    """Which plans there are depends on the width."""
    program = adapt(make(name, matrix_graph(), width, heads)).program
    return list(dict.fromkeys(v.plan_id for v in variants_of(program, "cpu")))
