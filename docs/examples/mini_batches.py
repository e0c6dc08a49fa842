"""Node classification on AIFB with sampled neighbourhoods: each batch is a new graph.

    python docs/examples/mini_batches.py [--plain]

PyG's `NeighborLoader` needs pyg-lib. `--plain` leaves the model as PyG runs it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

import torch
from _data import AIFB
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch_geometric.data import Data
from torch_geometric.loader import NeighborLoader
from torch_geometric.nn import RGCNConv

import hetune


class RGCN(nn.Module):
    """Two layers on rows that are learned for every node."""

    def __init__(self, nodes: int, relations: int, classes: int) -> None:
        super().__init__()
        self.x = nn.Embedding(nodes, 32)
        self.conv1 = RGCNConv(32, 32, relations)
        self.conv2 = RGCNConv(32, classes, relations)

    def forward(self, nodes: Tensor, edge_index: Tensor, edge_type: Tensor) -> Tensor:
        """Scores [nodes, classes] of a batch with these nodes."""
        rows = self.conv1(self.x(nodes), edge_index, edge_type).relu()
        return self.conv2(rows, edge_index, edge_type)


def main(
    arguments: Sequence[str] | None = None, sampler_of: Callable[[Data], Any] = lambda data: None
) -> tuple[float, float]:
    """Trains, and gives the last loss and accuracy; `sampler_of` may replace PyG's sampler."""
    line = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    line.add_argument("--plain", action="store_true", help="PyG alone")
    line.add_argument("--epochs", type=int, default=20)
    line.add_argument("--root", default="build/data", help="where PyG keeps the data set")
    options = line.parse_args(arguments)

    torch.manual_seed(0)
    dataset = AIFB(options.root)
    data = dataset[0]
    data.y = torch.zeros(data.num_nodes, dtype=torch.long)
    data.y[data.train_idx] = data.train_y
    model: nn.Module = RGCN(data.num_nodes, dataset.num_relations, dataset.num_classes)
    if not options.plain:
        model = hetune.compile(model, dynamic=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    seeds = {"input_nodes": data.train_idx, "batch_size": 35, "shuffle": True}
    loader = NeighborLoader(data, [20, 20], neighbor_sampler=sampler_of(data), **seeds)
    for epoch in range(options.epochs):
        for batch in loader:
            optimizer.zero_grad()
            out = model(batch.n_id, batch.edge_index, batch.edge_type)[: batch.batch_size]
            loss = cross_entropy(out, batch.y[: batch.batch_size])
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch + 1}: loss {loss.item():.4f}")

    with torch.no_grad():
        out = model(torch.arange(data.num_nodes), data.edge_index, data.edge_type)
    accuracy = float((out[data.test_idx].argmax(1) == data.test_y).float().mean())
    print(f"test accuracy {accuracy:.3f}")
    return loss.item(), accuracy


if __name__ == "__main__":
    main()
