"""Graphs that front-end tests share."""

from __future__ import annotations

import pytest
import torch

from hetune.variants.graph.hetero import HeteroGraph

NUM_RELATIONS = 5


def _random(num_nodes, num_edges, seed, relations=NUM_RELATIONS):
    draw = torch.Generator().manual_seed(seed)
    ends = torch.randint(num_nodes, (2, num_edges), generator=draw)
    etype = torch.randint(relations, (num_edges,), generator=draw)
    return HeteroGraph(*ends, etype, num_nodes=num_nodes, num_etypes=NUM_RELATIONS)


GRAPHS = {
    "random": _random(12, 60, 0),
    "sparse_with_isolated_nodes": _random(30, 15, 1),
    "two_relations_without_edges": _random(10, 40, 2, relations=3),
    "many_duplicates": _random(3, 50, 3),
    "no_edges": _random(4, 0, 4),
}


@pytest.fixture(params=GRAPHS)
def graph(request) -> HeteroGraph:
    """Typed edges on nodes of one type; relations that have none, duplicates, isolated nodes."""
    return GRAPHS[request.param]


METADATA = (
    ["paper", "author", "venue"],
    [
        ("author", "writes", "paper"),
        ("paper", "written_by", "author"),
        ("paper", "cites", "paper"),
        ("paper", "in", "venue"),
        ("author", "knows", "author"),
    ],
)


def _typed(counts, edges, seed):
    draw = torch.Generator().manual_seed(seed)
    x_dict = {
        name: torch.randn(count, 8, generator=draw, dtype=torch.float64)
        for name, count in counts.items()
    }
    edge_index_dict = {
        METADATA[1][r]: torch.stack(
            [torch.randint(counts[METADATA[1][r][side]], (num,), generator=draw) for side in (0, 2)]
        )
        for r, num in edges.items()
    }
    return x_dict, edge_index_dict


TYPED = {
    "random": _typed({"paper": 7, "author": 5, "venue": 3}, {0: 20, 1: 15, 2: 9, 3: 6, 4: 4}, 0),
    "relation_without_edges": _typed({"paper": 7, "author": 5, "venue": 3}, {0: 20, 2: 0, 3: 1}, 1),
    # PyG's HGTConv needs the edge types in the order of its metadata, not the node types.
    "other_order": _typed({"venue": 2, "paper": 4, "author": 9}, {0: 8, 2: 12, 3: 5}, 2),
}


@pytest.fixture(params=TYPED)
def typed_graph(request) -> tuple[dict, dict]:
    """x_dict (float64, width 8) and edge_index_dict of three node types and five relations."""
    return TYPED[request.param]
