"""Knowledge-graph embeddings on FB15k-237: PyG's TransE or DistMult learns from facts.

    python docs/examples/knowledge_graph.py [--model DistMult] [--plain]

`--plain` trains the model as PyG runs it.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import torch
from _data import Freebase
from torch_geometric.nn import kge

import hetune
import hetune.kge


def main(arguments: Sequence[str] | None = None) -> tuple[float, float]:
    """Trains, and gives the last epoch's mean loss and the filtered mean reciprocal rank."""
    line = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    line.add_argument("--plain", action="store_true", help="PyG alone")
    line.add_argument("--model", choices=("TransE", "DistMult"), default="TransE")
    line.add_argument("--epochs", type=int, default=20)
    line.add_argument("--width", type=int, default=64)
    line.add_argument("--batch", type=int, default=1000)
    line.add_argument("--ranked", type=int, default=5000, help="how many facts are ranked")
    line.add_argument("--root", default="build/data", help="where PyG keeps the data set")
    options = line.parse_args(arguments)

    torch.manual_seed(0)
    splits = [Freebase(options.root, split=part)[0] for part in ("train", "val", "test")]
    parts = [torch.stack((d.edge_index[0], d.edge_type, d.edge_index[1]), 1) for d in splits]
    facts, known = parts[0], torch.cat(parts)
    relations = int(known[:, 1].max()) + 1
    model = getattr(kge, options.model)(splits[0].num_nodes, relations, options.width)
    compiled = hetune.compile(model)  # an instance of the same class, with the same parameters
    trained = model if options.plain else compiled
    optimizer = torch.optim.Adam(trained.parameters(), lr=0.01)
    for epoch in range(options.epochs):
        losses = []
        for batch in trained.loader(*facts.t(), batch_size=options.batch, shuffle=True):
            optimizer.zero_grad()
            loss = trained.loss(*batch)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        mean = sum(losses) / len(losses)
        print(f"epoch {epoch + 1}: loss {mean:.4f}")
    ranking = hetune.kge.rank(compiled, parts[2][: options.ranked], known=known)
    print(f"MRR {ranking.mrr:.3f}, hits@10 {ranking.hits[10]:.3f}")
    return mean, ranking.mrr


if __name__ == "__main__":
    main()
