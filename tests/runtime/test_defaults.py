"""torch's default dtype and device, which users set for tensors of their own, change nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import Tensor

import hetune
from hetune.variants.graph import edited, from_edge_index_dict, generate, to_edge_index_dict
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.index import GraphIndex
from hetune.variants.testing.layers import randomized

pytestmark = pytest.mark.usefixtures("no_grad")

DEFAULTS = pytest.mark.parametrize("default", [torch.float64, torch.float16, "meta"], ids=str)


@contextmanager
def overridden(default: torch.dtype | str) -> Iterator[None]:
    """Tensors of that dtype, or on that device, unless their maker says otherwise."""
    before = torch.get_default_dtype()
    if isinstance(default, torch.dtype):
        torch.set_default_dtype(default)
    try:
        with torch.device(default if isinstance(default, str) else "cpu"):
            yield
    finally:
        torch.set_default_dtype(before)


def graphs() -> dict[str, HeteroGraph]:
    drawn = generate("mag", scale=1e-5)
    edges = to_edge_index_dict(drawn)
    key = next(key for key, ends in edges.items() if ends.shape[1])
    first = {key: edges[key][:, :1]}
    return {
        "drawn": drawn,
        "converted": from_edge_index_dict(edges, metadata=drawn.metadata()),
        "with more": edited(drawn, add=first, add_nodes={key[0]: 1}),
        "with less": edited(drawn, remove=first),
        "with inverses": drawn.add_inverse().add_self_loops(),
    }


def arrays(graph: HeteroGraph) -> Iterator[Tensor]:
    yield from (graph.src, graph.dst, graph.etype, graph.ntype)
    for relations in (None, (), (0,)):
        index = GraphIndex.of(graph, relations)
        yield from (index.edge_id, index.position, index.indptr, index.csc_indptr)
        yield from (index.dst_pair_of_edge, index.src_pair_of_edge)
        yield from (index.nodes_with_edges("src"), index.nodes_with_edges("dst"))


@DEFAULTS
def test_graphs_and_indexes(default):
    expected = {name: list(arrays(graph)) for name, graph in graphs().items()}
    with overridden(default):
        found = {name: list(arrays(graph)) for name, graph in graphs().items()}
    for name, those in expected.items():
        assert all(map(torch.equal, found[name], those)), name


@DEFAULTS
@pytest.mark.parametrize("layer", ["rgcn", "rgat", "hgt"])
def test_results(layer, default):
    drawn = generate("mag", scale=1e-5)
    module = randomized(
        {
            "rgcn": lambda: hetune.nn.RGCN(8, 8, drawn.num_etypes),
            "rgat": lambda: hetune.nn.RGAT(8, 4, drawn.num_etypes, heads=2),
            "hgt": lambda: hetune.nn.HGT(8, 8, drawn.metadata(), heads=2),
        }[layer]()
    )
    x = torch.randn(drawn.num_nodes, 8, generator=torch.Generator().manual_seed(0))

    def run() -> Tensor:
        return hetune.compile(module, backend="torch")(x, generate("mag", scale=1e-5))

    expected = run()
    with overridden(default):
        found = run()
    assert found.dtype == torch.float32
    assert torch.equal(found, expected)
