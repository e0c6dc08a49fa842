"""Models on sampled neighbourhoods, which are a new graph in every call.

PyG's `NeighborLoader` needs pyg-lib or torch-sparse, which no test may ask for: batches are drawn
here as it lays them out, the nodes and edges of each hop after those of the hops before it.
"""

from __future__ import annotations

import pytest
import torch
from tests.frontend.message_passing_cases import WIDTH, pyg
from torch import nn

import hetune
from hetune.variants.frontend import message_passing

utils = pytest.importorskip("torch_geometric.utils")
NODES = 400
EDGES = torch.randint(0, NODES, (2, 2000), generator=torch.Generator().manual_seed(0))


def sampled(seeds, hops=2):
    """Nodes, edges among them by their places, and how many of both each hop has."""
    nodes, counts, parts = seeds, [len(seeds)], []
    newest = seeds
    for _ in range(hops):
        edges = EDGES[:, torch.isin(EDGES[1], newest)]
        newest = edges[0].unique()
        newest = newest[~torch.isin(newest, nodes)]
        nodes = torch.cat((nodes, newest))
        counts.append(len(newest))
        parts.append(edges)
    place = torch.empty(NODES, dtype=torch.int64)
    place[nodes] = torch.arange(len(nodes))
    return nodes, place[torch.cat(parts, 1)], counts, [part.shape[1] for part in parts]


class Trimmed(nn.Module):
    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList((pyg.SAGEConv(WIDTH, 6), pyg.GCNConv(6, 3)))

    def forward(self, x, edge_index, nodes, edges):
        for i, conv in enumerate(self.convs):
            x, edge_index, _ = utils.trim_to_layer(i, nodes, edges, x, edge_index)
            x = conv(x, edge_index).relu()
        return x[: nodes[0]]


@torch.no_grad()
@pytest.mark.parametrize("dynamic", [False, True])
def test_layers_are_traced_for_the_first_batch_alone(monkeypatch, dynamic):
    traces, trace = [], message_passing.trace
    monkeypatch.setattr(message_passing, "trace", lambda *args: traces.append(1) or trace(*args))
    model, x = Trimmed().eval(), torch.randn(NODES, WIDTH)
    compiled = hetune.compile(model, dynamic=dynamic)
    for seeds in torch.randperm(NODES)[:100].split(20):
        nodes, edge_index, *counts = sampled(seeds)
        found = compiled(x[nodes], edge_index, *counts)
        torch.testing.assert_close(found, model(x[nodes], edge_index, *counts))
    assert len(traces) == len(model.convs)
