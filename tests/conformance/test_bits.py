"""Same variant, same input: the same bits, however often and on however many threads."""

from __future__ import annotations

import pytest

from hetune.variants.plan.variants import BLOCK_NODES
from hetune.variants.testing.conformance import check_same_bits
from hetune.variants.testing.graphs import AWKWARD
from hetune.variants.testing.layers import LAYERS, randomized

from .covering import chosen, each_plan

SHAPES = [(name, 64, 2 if 2 in layer.heads else 1) for name, layer in LAYERS.items()]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape[0])
@pytest.mark.parametrize(
    "graph", ["several blocks", "hub of thousands of edges", "thousands of relations"]
)
def test_same_bits(graph, shape, compile_ahead):
    compile_ahead([shape])
    graph = AWKWARD[graph]()
    module = randomized(LAYERS[shape[0]].make(graph, *shape[1:]))
    keep = chosen(*shape) if graph.num_nodes > BLOCK_NODES[0] else each_plan
    check_same_bits(module, graph, "cpp", keep=keep, repeats=1)
