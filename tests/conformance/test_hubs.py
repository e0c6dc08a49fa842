"""A node with hundreds of thousands of incoming edges is as right as the others."""

from __future__ import annotations

from functools import cache

import pytest
import torch

from hetune.variants.frontend.adapt import adapt
from hetune.variants.testing.conformance import check_variants
from hetune.variants.testing.graphs import long_sums
from hetune.variants.testing.layers import LAYERS, randomized

from .covering import chosen
from .pyg import make

SHAPES = [(name, 7, 2 if 2 in layer.heads else 1) for name, layer in LAYERS.items()]
"""All plans of these are compiled for the matrix anyway."""


hub = cache(long_sums)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape[0])
def test_hub(shape, compile_ahead):
    """Features without signs, whose sums grow with every edge."""
    compile_ahead([shape])
    graph = hub()
    module = randomized(make(shape[0], graph, *shape[1:])).eval()
    width = adapt(module).program.type_of("x").width
    x = torch.rand((graph.num_nodes, width), generator=torch.Generator().manual_seed(0))
    check_variants(module, graph, "cpp", keep=chosen(*shape), x=x)
