"""Walks cut into phases: what each waits for is there, and together they do the same."""

from functools import partial

import pytest
import torch

from hetune.variants.frontend.adapt import adapt
from hetune.variants.graph.index import GraphIndex
from hetune.variants.kernel.interpret import interpret
from hetune.variants.kernel.nodes import ForEach, Launch, Traversal
from hetune.variants.kernel.parse import parse
from hetune.variants.kernel.passes.phases import phase_of, phased
from hetune.variants.kernel.random_values import random_values
from hetune.variants.kernel.text import show
from hetune.variants.kernel.verify import verify
from hetune.variants.plan.variants import variants_of
from hetune.variants.testing.graphs import AWKWARD, typed_graph
from hetune.variants.testing.launches import random_launch
from hetune.variants.testing.layers import LAYERS

GROUPS = {"": None, "a": (0, 2), "b": (1,)}

TWICE = """
launch
  buffer x: node[4]
  buffer bias: node[4]
  buffer y: node[4]
  traverse node
    own: [4] = read bias
    init top: [4] max
    for edge
      row: [4] = read x[src]
      update top row
    high: [4] = tanh(top)
    init total: [4] sum
    for edge
      again: [4] = read x[src]
      less: [4] = sub(again, high)
      update total less
    both: [4] = add(total, own)
    store y = both
"""
"""A sum of what is found of a maximum."""

BOTH = """
launch
  buffer x: node[4]
  buffer s: edge[4]
  traverse node
    own: [4] = read x
    for edge@a
      row: [4] = read x[src]
      both: [4] = add(row, own)
      store s = both
    for edge@b
      other: [4] = read x[src]
      store s = other
"""
"""Nothing but stores of edges: of two groups."""

AGAIN = """
launch
  buffer x: node[4]
  buffer s: edge[4]
  buffer y: node[4]
  traverse node
    for edge
      row: [4] = read x[src]
      store s = row
    init total: [4] sum
    for edge
      held: [4] = read s
      update total held
    store y = total
"""
"""A loop that reads what the one before it has stored."""


def _index(graph, group: str) -> GraphIndex:
    return GraphIndex.of(graph, GROUPS[group])


def outputs(launch: Launch, values, graph) -> dict[str, torch.Tensor]:
    interpret(launch, values, partial(_index, graph), graph)
    return values


def check_same(before: Launch, after: Launch) -> None:
    graph = typed_graph((50, 30), [(0, 0, 60), (1, 0, 40), (0, 1, 30)])
    index = partial(_index, graph)
    values = random_values(before, index, graph)
    scratch = random_values(after, index, graph)
    expected = outputs(before, {name: value.clone() for name, value in values.items()}, graph)
    found = outputs(after, scratch | values, graph)
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, equal_nan=True)


def walks(launch: Launch) -> list[tuple[str, int]]:
    """Of each walk, the space of its rows and its loops."""
    return [
        (str(kernel.rows.space), sum(isinstance(s, ForEach) for s in kernel.body))
        for kernel in launch.kernels
        if isinstance(kernel, Traversal)
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (TWICE, [("node", 1), ("node", 1)]),
        (BOTH, [("edge", 0), ("edge", 0)]),
        (AGAIN, [("edge", 0), ("node", 1)]),
    ],
    ids=["a sum behind a maximum", "stores", "a store that is read"],
)
def test_walks_are_cut_where_they_wait(text, expected):
    before = parse(text)
    after = phased(before)
    assert walks(after) == expected
    verify(after)
    check_same(before, after)


def test_what_crosses_is_in_scratch_and_what_can_be_read_again_is_not():
    after = phased(parse(TWICE))
    assert [b.name for b in after.buffers if b.scratch] == ["high"]
    assert show(after).count("read bias") == 1


@pytest.mark.parametrize("seed", range(30))
def test_random_launches_stay_the_same(seed):
    before = random_launch(seed, (1, 3))
    after = phased(before)
    verify(after)
    check_same(before, after)
    assert phased(after) == after


@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("layer", LAYERS)
def test_all_loops_of_plans_are_shared_out(layer, heads):
    module = LAYERS[layer].make(AWKWARD["one relation"](), 8, heads)
    for variant in variants_of(adapt(module).program, "cuda"):
        for launch in map(phased, variant.plan.launches):
            for kernel in launch.kernels:
                loops = isinstance(kernel, Traversal) and any(
                    isinstance(stmt, ForEach) for stmt in kernel.body
                )
                assert (phase_of(kernel, launch) is not None) == loops
