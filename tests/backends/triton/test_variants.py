"""Every kernel of every layer's variants, interpreted by Triton: what comes out is right.

Variants share kernels: a quarter of them has all. By default these run, each on one of the awkward
graphs, taking turns, and one variant of each plan at one of the widths with one number of heads.
HETUNE_FULL_MATRIX=1 runs every variant at every width and on every graph, which takes long: an
interpreter needs milliseconds for every program. Which plans there are depends on the width.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from itertools import product

import pytest
from tests.full import FULL

from hetune.variants.backends.triton.target import TritonFunction
from hetune.variants.frontend.adapt import adapt
from hetune.variants.plan.variants import Variant, variants_of
from hetune.variants.testing.conformance import check_variants
from hetune.variants.testing.graphs import AWKWARD, typed_graph
from hetune.variants.testing.layers import LAYERS, randomized

from ._kernels import kernels_of

WIDTHS = (1, 7, 16, 63)
WIDTH = 7
"""The width on awkward graphs."""
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


def made(name: str, heads: int, width: int) -> tuple[Variant, ...]:
    """A layer's variants."""
    module = LAYERS[name].make(AWKWARD["one relation"](), width, heads)
    return tuple(variants_of(adapt(module).program, "cuda"))


def heads_of(name: str) -> list[int]:
    """The numbers of heads that a layer runs with."""
    return [heads for layer, heads in SHAPES if layer == name]


@cache
def variants(name: str, heads: int, width: int) -> dict[str, tuple[int, int]]:
    """A layer's variants by id: places of the plan, and of the schedule among the plan's own."""
    own: dict[str, list[str]] = {}
    for variant in made(name, heads, width):
        own.setdefault(variant.id.rpartition("/")[0], []).append(variant.id)
    return {i: (plan, at) for plan, ids in enumerate(own.values()) for at, i in enumerate(ids)}


@cache
def kernels(name: str, heads: int) -> dict[str, frozenset[TritonFunction]]:
    """The kernels of each variant of width `WIDTH`."""
    return {variant.id: kernels_of(variant) for variant in made(name, heads, WIDTH)}


@cache
def covering(name: str, heads: int) -> tuple[str, ...]:
    """Few variants of width `WIDTH` that have all kernels, each the one that has most new ones."""
    known = kernels(name, heads)
    left = set().union(*known.values())
    found: list[str] = []
    while left:
        found.append(max(known, key=lambda variant: len(known[variant] & left)))
        left -= known[found[-1]]
    return tuple(found)


def turns_of_variants(name: str, heads: int, turns: int, mine: int):
    """Which variants of width `WIDTH` run at this turn: each of `covering` at one, or all."""
    if FULL:
        return lambda variant: True
    shift = SHAPES.index((name, heads))
    now = {v for turn, v in enumerate(covering(name, heads)) if (shift + turn) % turns == mine}
    return lambda variant: variant in now


@cache
def shapes_of_plans(name: str) -> dict[str, tuple[int, int]]:
    """Heads and width at which each of a layer's plans has its turn: one that it is there for."""
    there: dict[str, list[tuple[int, int]]] = {}
    for heads, width in product(heads_of(name), WIDTHS):
        for plan in dict.fromkeys(v.rpartition("/")[0] for v in variants(name, heads, width)):
            there.setdefault(plan, []).append((heads, width))
    shift = list(LAYERS).index(name)
    return {
        plan: shapes[(shift + turn) % len(shapes)]
        for turn, (plan, shapes) in enumerate(there.items())
    }


def turns_of_plans(name: str, heads: int, width: int):
    """Which variants run at a width: one of each plan whose turn it is, or all."""
    known = variants(name, heads, width)
    schedules = Counter(plan for plan, _ in known.values())
    shift = SHAPES.index((name, heads)) + WIDTHS.index(width)

    def keep(variant: str) -> bool:
        plan, schedule = known[variant]
        turn = shapes_of_plans(name)[variant.rpartition("/")[0]] == (heads, width)
        return FULL or (turn and schedule == (plan + shift) % schedules[plan])

    return keep


def run(name, heads, width, graph, keep) -> None:
    module = randomized(LAYERS[name].make(graph, width, heads)).eval()
    if any(keep(variant.id) for variant in variants_of(adapt(module).program, "cuda")):
        check_variants(module, graph, "triton", keep=lambda variant: keep(variant.id))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(("name", "heads"), SHAPES)
def test_widths(name, heads, width, small):
    run(name, heads, width, small, turns_of_plans(name, heads, width))


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize(("name", "heads"), SHAPES)
def test_awkward_graphs(name, heads, graph):
    keep = turns_of_variants(name, heads, len(GRAPHS), list(GRAPHS).index(graph))
    run(name, heads, WIDTH, GRAPHS[graph](), keep)


@pytest.mark.parametrize(("name", "heads"), SHAPES)
def test_every_kernel_has_its_turn(name, heads):
    known = kernels(name, heads)
    turns = [turns_of_variants(name, heads, len(GRAPHS), mine) for mine in range(len(GRAPHS))]
    ran = [variant for keep in turns for variant in filter(keep, known)]
    assert set().union(*map(known.get, ran)) == set().union(*known.values())
    assert len(ran) == (len(turns) * len(known) if FULL else len(set(ran)))


@pytest.mark.parametrize("name", LAYERS)
def test_every_plan_has_its_turn(name):
    kept = [
        variant.rpartition("/")[0]
        for heads, width in product(heads_of(name), WIDTHS)
        for variant in filter(turns_of_plans(name, heads, width), variants(name, heads, width))
    ]
    assert set(kept) == shapes_of_plans(name).keys()
    assert FULL or len(kept) == len(set(kept))
