"""PyG layers, graphs and backends that run without a compiler."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.testing.graphs import typed_graph
from hetune.variants.testing.layers import randomized


@pytest.fixture(autouse=True)
def _two_threads() -> Iterator[None]:
    """However many processors there are."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def graph() -> HeteroGraph:
    return typed_graph((30, 20), [(0, 1, 60), (1, 0, 50), (0, 0, 40)])


@pytest.fixture
def edges(graph) -> tuple[torch.Tensor, torch.Tensor]:
    """``edge_index`` and ``edge_type`` of the graph, int64."""
    return torch.stack((graph.src, graph.dst)).long(), graph.etype.long()


@pytest.fixture
def x(graph) -> torch.Tensor:
    return torch.randn(graph.num_nodes, 8, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def rgcn():
    geometric = pytest.importorskip("torch_geometric.nn")
    return randomized(geometric.RGCNConv(8, 8, 3))


@pytest.fixture
def no_grad() -> Iterator[None]:
    with torch.no_grad():
        yield
