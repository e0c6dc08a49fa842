"""Real graphs with inverse edges, every other plan compiled, and all with HETUNE_FULL_MATRIX=1.

At width 7 with 2 heads against PyG on the whole graph; at width 64 against the edge loop for a
sample of nodes (their incoming edges decide their rows), the largest hubs that fit among them.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
import torch
from tests.full import every

from hetune.variants.compiler.pipeline import Compiler
from hetune.variants.frontend.adapt import adapt
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.loaders import load
from hetune.variants.plan.variants import variants_of
from hetune.variants.registry import default_registry
from hetune.variants.runtime.compile_layer import compile_layer
from hetune.variants.testing.conformance import TOLERANCE, features, relative_error
from hetune.variants.testing.layers import LAYERS, randomized

from . import pyg

pytestmark = pytest.mark.data

NAMES = ("aifb_hetero", "mutag_hetero", "fb15k237")
BLOCK = "b1024"
MOST_SAMPLED_EDGES = 4000


@cache
def real_graph(folder: Path, name: str) -> HeteroGraph:
    return load(folder / "graphs" / f"{name}.npz").add_inverse()


@cache
def sample(graph: HeteroGraph) -> tuple[torch.Tensor, HeteroGraph]:
    """Some nodes, and the graph without all other nodes' incoming edges."""
    degree = torch.bincount(graph.dst, minlength=graph.num_nodes)
    hubs = (degree <= MOST_SAMPLED_EDGES // 2).nonzero().flatten()
    hub = hubs[degree[hubs].argmax()]
    order = torch.randperm(graph.num_nodes, generator=torch.Generator().manual_seed(0))
    order = torch.cat((hub.view(1), order[order != hub]))
    nodes = order[degree[order].cumsum(0) <= MOST_SAMPLED_EDGES]
    kept = torch.isin(graph.dst, nodes)
    return nodes, HeteroGraph(
        graph.src[kept],
        graph.dst[kept],
        graph.etype[kept],
        graph.ntype,
        ntype_names=graph.ntype_names,
        etype_names=graph.etype_names,
        canonical_etypes=graph.canonical_etypes,
    )


def run_all(module, graph, x, check, turn):
    program = adapt(module).program
    promoted = every(
        2, (v for v in variants_of(program, "cpu") if v.id.endswith(f"/{BLOCK}")), turn
    )
    report = default_registry().build(Compiler.of("cpu").emit(promoted))
    assert not report.failed, report.failed
    layer = compile_layer(module)
    for variant in promoted:
        with torch.no_grad():
            error = check(layer(x, graph, variant=variant.id))
        assert error <= TOLERANCE, variant.id


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("layer", LAYERS)
def test_whole_graph_equals_pyg(layer, name, data_dir):
    graph = real_graph(data_dir, name)
    module = randomized(pyg.make(layer, graph, 7, 2)).eval()
    x = features(module, graph)
    # What PyG leaves out has no edges leading to it: nothing to compare.
    missing = torch.full((graph.num_nodes, 1), torch.nan).double()
    width = adapt(module).program.type_of(adapt(module).program.result).width
    expected = pyg.run(module, x, graph, missing.expand(-1, width))
    given = ~expected.isnan().any(1)
    assert given.sum() > 0.9 * graph.num_nodes
    turn = NAMES.index(name)
    run_all(module, graph, x, lambda found: relative_error(found[given], expected[given]), turn)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("layer", LAYERS)
def test_sampled_nodes_equal_the_edge_loop(layer, name, data_dir):
    graph = real_graph(data_dir, name)
    nodes, part = sample(graph)
    module = randomized(LAYERS[layer].make(graph, 64, 2 if 2 in LAYERS[layer].heads else 1))
    x = features(module, graph)
    expected = LAYERS[layer].loop(module.weights(), x, part)[nodes]
    turn = NAMES.index(name)
    run_all(module, graph, x, lambda found: relative_error(found[nodes], expected), turn)
