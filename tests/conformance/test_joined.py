"""Graphs side by side: each row has the bits that it has alone, at a width that is not unrolled.

At widths of 16 and less compilers unroll products for some heights of tiles and not for others,
and round differently; nothing is promised there. Nor is it for softmaxes in one pass, whose edges
share vectors with those of other nodes.
"""

from __future__ import annotations

import pytest
import torch

from hetune.variants.graph.block_diagonal import block_diagonal
from hetune.variants.plan.choices import LoweringForm
from hetune.variants.plan.variants import variants_of
from hetune.variants.runtime.compile_layer import compile_layer
from hetune.variants.testing.conformance import features
from hetune.variants.testing.graphs import AWKWARD, typed_graph
from hetune.variants.testing.layers import LAYERS, randomized

from .covering import chosen

SHAPES = [(name, 64, 2 if 2 in layer.heads else 1) for name, layer in LAYERS.items()]
RELATIONS = [(0, 1), (1, 0), (0, 0), (1, 1), (2, 0)]


def draw(nodes, edges, seed):
    return typed_graph(nodes, [(*r, n) for r, n in zip(RELATIONS, edges, strict=True)], seed)


def several():
    """Of few edges and many, with isolated nodes, without edges, without nodes."""
    return [
        draw((30, 20, 5), (60, 30, 10, 0, 7), 1),
        draw((300, 100, 2), (6, 5, 0, 4, 0), 2),
        draw((0, 0, 0), (0, 0, 0, 0, 0), 3),
        draw((4, 3, 0), (0, 0, 0, 0, 0), 4),
        draw((500, 300, 100), (350, 250, 150, 80, 70), 6),
    ]


GROUPS = {
    "copies": lambda: [AWKWARD["several blocks"]()] * 3,
    "copies with a hub": lambda: [AWKWARD["hub"]()] * 4,
    "several": several,
}


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape[0])
@pytest.mark.parametrize("group", GROUPS)
def test_rows_have_the_bits_that_they_have_alone(group, shape, compile_ahead):
    compile_ahead([shape])
    graphs = GROUPS[group]()
    module = randomized(LAYERS[shape[0]].make(graphs[0], *shape[1:]))
    layer = compile_layer(module)
    blocks = block_diagonal(graphs)
    xs = [features(module, graph, seed) for seed, graph in enumerate(graphs)]
    ran = 0
    for each in filter(chosen(*shape), variants_of(module.adapter().program, "cpu")):
        variant = each.id
        if group == "several" and each.choices.plan.program.is_hybrid:
            continue  # a relation's side is that of all graphs together
        if each.choices.plan.form is LoweringForm.ONE_PASS:
            continue
        with torch.no_grad():
            found = blocks.split(layer(blocks.stacked(xs), blocks.graph, variant=variant))
            for x, graph, rows in zip(xs, graphs, found, strict=True):
                alone = layer(x, graph, variant=variant)
                assert torch.equal(rows.view(torch.int32), alone.view(torch.int32)), variant
        ran += 1
    assert ran >= 8
