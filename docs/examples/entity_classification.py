"""Entity classification on AIFB by R-GCN: which research group do people belong to?

    python docs/examples/entity_classification.py [--features] [--plain]

Without features the first layer's input is which node it is, as in the paper; with them, rows of
32 numbers that are learned. `--plain` leaves the model as PyG runs it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

import torch
from _data import AIFB
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch_geometric.nn import RGCNConv

import hetune


class RGCN(nn.Module):
    """Two layers; the first has a width of 16."""

    def __init__(self, nodes: int, relations: int, classes: int, features: bool) -> None:
        super().__init__()
        self.x = nn.Parameter(torch.randn(nodes, 32)) if features else None
        self.conv1 = RGCNConv(32 if features else nodes, 16, relations)
        self.conv2 = RGCNConv(16, classes, relations)

    def forward(self, edge_index: Tensor, edge_type: Tensor) -> Tensor:
        """Scores [nodes, classes]."""
        rows = self.conv1(self.x, edge_index, edge_type).relu()
        return self.conv2(rows, edge_index, edge_type)


def main(arguments: Sequence[str] | None = None) -> tuple[float, float]:
    """Trains, and gives the last loss and the share of test nodes that are classified rightly."""
    line = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    line.add_argument("--features", action="store_true")
    line.add_argument("--plain", action="store_true", help="PyG alone")
    line.add_argument("--epochs", type=int, default=50)
    line.add_argument("--root", default="build/data", help="where PyG keeps the data set")
    options = line.parse_args(arguments)

    torch.manual_seed(0)
    dataset = AIFB(options.root)
    data = dataset[0]
    size = data.num_nodes, dataset.num_relations, dataset.num_classes
    model: nn.Module = RGCN(*size, options.features)
    if not options.plain:
        model = hetune.compile(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)

    start = time.perf_counter()
    for epoch in range(options.epochs):
        optimizer.zero_grad()
        out = model(data.edge_index, data.edge_type)
        loss = cross_entropy(out[data.train_idx], data.train_y)
        loss.backward()
        optimizer.step()
        print(f"epoch {epoch + 1}: loss {loss.item():.4f}")
    seconds = (time.perf_counter() - start) / options.epochs

    with torch.no_grad():
        found = model(data.edge_index, data.edge_type)[data.test_idx].argmax(1)
    accuracy = float((found == data.test_y).float().mean())
    print(f"test accuracy {accuracy:.3f}, {1e3 * seconds:.1f} ms per epoch")
    return loss.item(), accuracy


if __name__ == "__main__":
    main()
