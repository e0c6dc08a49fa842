"""Every plan of every layer, interpreted by Triton, equals the program's interpreter.

By default each plan runs at one of the widths, taking turns, on a graph with a hub, and at one of
the awkward graphs. HETUNE_FULL_MATRIX=1 runs every plan at every width on every graph, which takes
long: an interpreter needs milliseconds for every program.
"""

from __future__ import annotations

import os
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
def variants(name: str, heads: int) -> tuple[str, ...]:
    """Ids of a layer's variants."""
    module = LAYERS[name].make(AWKWARD["one relation"](), 16, heads)
    return tuple(variant.id for variant in variants_of(adapt(module).program, "cuda"))


def plans(name: str, heads: int) -> tuple[str, ...]:
    """Ids of a layer's plans."""
    return tuple(dict.fromkeys(i.rpartition("/")[0] for i in variants(name, heads)))


def turn(name: str, heads: int, turns: int, mine: int):
    """Which plans run at this turn: each at one of them, or all; schedules take turns at plans."""
    shift = SHAPES.index((name, heads))
    known = plans(name, heads)

    def keep(variant: str) -> bool:
        plan, _, schedule = variant.rpartition("/")
        if plan not in known:  # it needs canonical edges
            return schedule == "t64-e1024"
        place = known.index(plan) + shift
        own = [i for i in variants(name, heads) if i.rpartition("/")[0] == plan]
        if variant != own[(place + mine) % len(own)]:
            return False
        return FULL or place % turns == mine

    return keep


def run(name, heads, width, graph, keep) -> None:
    module = randomized(LAYERS[name].make(graph, width, heads)).eval()
    if any(keep(variant.id) for variant in variants_of(adapt(module).program, "cuda")):
        check_variants(module, graph, "triton", keep=keep)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(("name", "heads"), SHAPES)
def test_widths(name, heads, width, small):
    run(name, heads, width, small, turn(name, heads, len(WIDTHS), WIDTHS.index(width)))


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize(("name", "heads"), SHAPES)
def test_awkward_graphs(name, heads, graph):
    keep = turn(name, heads, len(GRAPHS), list(GRAPHS).index(graph))
    run(name, heads, 7, GRAPHS[graph](), keep)


def test_every_plan_has_its_turn():
    for name, heads in SHAPES:
        for turns in (len(WIDTHS), len(GRAPHS)):
            keeps = [turn(name, heads, turns, mine) for mine in range(turns)]
            kept = [v for v in variants(name, heads) if any(keep(v) for keep in keeps)]
            assert [v.rpartition("/")[0] for v in kept] == list(plans(name, heads))
