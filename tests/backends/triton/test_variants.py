"""Every variant of every layer, interpreted by Triton, equals the program's interpreter.

By default each variant runs on one of the awkward graphs, taking turns, and one of each plan at
one of the widths. HETUNE_FULL_MATRIX=1 runs every variant at every width and on every graph, which
takes long: an interpreter needs milliseconds for every program.
"""

from __future__ import annotations

import os
from collections import Counter
from functools import cache

import pytest

from hetune.variants.frontend.adapt import adapt
from hetune.variants.plan.variants import variants_of
from hetune.variants.testing.conformance import check_variants
from hetune.variants.testing.graphs import AWKWARD, typed_graph
from hetune.variants.testing.layers import LAYERS, randomized

FULL = bool(os.environ.get("HETUNE_FULL_MATRIX"))
WIDTHS = (1, 7, 16, 63)
SHAPES = [(name, heads) for name, layer in LAYERS.items() for heads in layer.heads if heads <= 2]
BIG = ("hub of thousands of edges", "several blocks", "thousands of relations")
GRAPHS = {name: make for name, make in AWKWARD.items() if FULL or name not in BIG}
if not FULL:
    # As awkward, but an interpreter needs some milliseconds for every program.
    GRAPHS["hub"] = GRAPHS["source hub"] = lambda: typed_graph((20, 8), [(0, 0, 90), (1, 1, 2)])
    GRAPHS["isolated nodes"] = lambda: typed_graph((60, 20), [(0, 0, 4), (0, 1, 3), (1, 0, 2)])
    GRAPHS["many relations"] = lambda: typed_graph(
        (8, 5), [(r % 2, r // 2 % 2, 1 + (r % 7 == 0)) for r in range(24)]
    )


@pytest.fixture(autouse=True)
def _triton() -> None:
    pytest.importorskip("triton", minversion="3.7.1")


@cache
def variants(name: str, heads: int) -> dict[str, tuple[int, int]]:
    """A layer's variants by id: places of the plan, and of the schedule among the plan's own."""
    module = LAYERS[name].make(AWKWARD["one relation"](), 16, heads)
    own: dict[str, list[str]] = {}
    for variant in variants_of(adapt(module).program, "cuda"):
        own.setdefault(variant.id.rpartition("/")[0], []).append(variant.id)
    return {i: (plan, at) for plan, ids in enumerate(own.values()) for at, i in enumerate(ids)}


def turns_of_variants(name: str, heads: int, turns: int, mine: int):
    """Which variants run at this turn: each at one of them, or all."""
    shift = SHAPES.index((name, heads))
    return lambda variant: FULL or (shift + sum(variants(name, heads)[variant])) % turns == mine


def turns_of_plans(name: str, heads: int, turns: int, mine: int):
    """Which variants run at this turn: one of each plan at one of them, or all."""
    shift, schedules = (
        SHAPES.index((name, heads)),
        Counter(p for p, _ in variants(name, heads).values()),
    )

    def keep(variant: str) -> bool:
        plan, schedule = variants(name, heads)[variant]
        place = plan + shift
        return FULL or (place % turns == mine and schedule == (place + mine) % schedules[plan])

    return keep


def run(name, heads, width, graph, keep) -> None:
    module = randomized(LAYERS[name].make(graph, width, heads)).eval()
    if any(keep(variant.id) for variant in variants_of(adapt(module).program, "cuda")):
        check_variants(module, graph, "triton", keep=keep)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(("name", "heads"), SHAPES)
def test_widths(name, heads, width, small):
    keep = turns_of_plans(name, heads, len(WIDTHS), WIDTHS.index(width))
    run(name, heads, width, small, keep)


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize(("name", "heads"), SHAPES)
def test_awkward_graphs(name, heads, graph):
    keep = turns_of_variants(name, heads, len(GRAPHS), list(GRAPHS).index(graph))
    run(name, heads, 7, GRAPHS[graph](), keep)


@pytest.mark.parametrize(("name", "heads"), SHAPES)
def test_everything_has_its_turn(name, heads):
    turns = [turns_of_variants(name, heads, len(GRAPHS), mine) for mine in range(len(GRAPHS))]
    known = variants(name, heads)
    assert all(
        sum(keep(variant) for keep in turns) == (len(turns) if FULL else 1) for variant in known
    )
    turns = [turns_of_plans(name, heads, len(WIDTHS), mine) for mine in range(len(WIDTHS))]
    kept = {known[variant][0] for variant in known if any(keep(variant) for keep in turns)}
    assert kept == {plan for plan, _ in known.values()}
