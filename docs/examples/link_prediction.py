"""Link prediction on FB15k-237: an R-GCN encodes entities, and DistMult scores facts.

    python docs/examples/link_prediction.py [--plain]

`--plain` leaves the encoder as PyG runs it.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import torch
from _data import Freebase
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits
from torch_geometric.nn import RGCNConv

import hetune


class Encoder(nn.Module):
    """Learned rows of entities, and what a layer adds to them from their facts."""

    def __init__(self, nodes: int, relations: int, width: int) -> None:
        super().__init__()
        self.x = nn.Parameter(torch.randn(nodes, width) * 0.1)
        self.conv = RGCNConv(width, width, relations, num_bases=8)

    def forward(self, edge_index: Tensor, edge_type: Tensor) -> Tensor:
        """Rows [nodes, width]."""
        return self.x + self.conv(self.x, edge_index, edge_type).tanh()


def main(arguments: Sequence[str] | None = None) -> tuple[float, float]:
    """Trains, and gives the last loss and how often the tail is among the ten best."""
    line = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    line.add_argument("--plain", action="store_true", help="PyG alone")
    line.add_argument("--epochs", type=int, default=30)
    line.add_argument("--width", type=int, default=64)
    line.add_argument("--root", default="build/data", help="where PyG keeps the data set")
    options = line.parse_args(arguments)

    torch.manual_seed(0)
    train, test = (Freebase(options.root, split=part)[0] for part in ("train", "test"))
    nodes, relations = train.num_nodes, int(train.edge_type.max()) + 1
    encoder: nn.Module = Encoder(nodes, 2 * relations, options.width)
    if not options.plain:
        encoder = hetune.compile(encoder)
    scale = nn.Parameter(torch.randn(relations, options.width))
    optimizer = torch.optim.Adam([*encoder.parameters(), scale], lr=0.02)

    both = torch.cat([train.edge_index, train.edge_index.flip(0)], dim=1)
    types = torch.cat([train.edge_type, train.edge_type + relations])
    for epoch in range(options.epochs):
        optimizer.zero_grad()
        rows = encoder(both, types)
        facts = torch.randint(len(train.edge_type), (50_000,))
        head, tail = train.edge_index[:, facts]
        query = rows[head] * scale[train.edge_type[facts]]
        scores = torch.cat([(query * rows[tail]).sum(1), (query * rows[tail.roll(1)]).sum(1)])
        wanted = torch.cat([torch.ones(len(facts)), torch.zeros(len(facts))])
        loss = binary_cross_entropy_with_logits(scores, wanted)
        loss.backward()
        optimizer.step()
        print(f"epoch {epoch + 1}: loss {loss.item():.4f}")

    with torch.no_grad():
        rows = encoder(both, types)
        head, tail = test.edge_index
        best = (rows[head] * scale[test.edge_type] @ rows.t()).topk(10).indices
    hits = float((best == tail.unsqueeze(1)).any(1).float().mean())
    print(f"hits@10 {hits:.3f}")
    return loss.item(), hits


if __name__ == "__main__":
    main()
