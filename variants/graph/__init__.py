"""Typed graphs: the graph itself, its conversions, loaders and generators."""

from hetune.variants.graph.convert import (
    from_dgl,
    from_edge_index_dict,
    from_networkx,
    from_pyg,
    from_scipy,
    to_dgl,
    to_edge_index_dict,
    to_networkx,
    to_pyg,
    to_scipy,
)
from hetune.variants.graph.edit import edited
from hetune.variants.graph.generate import generate
from hetune.variants.graph.hetero import CanonicalEtype, HeteroGraph
from hetune.variants.graph.loaders import formats, load
from hetune.variants.graph.reach import ReachStep, reach
from hetune.variants.graph.renumber import renumbered
from hetune.variants.graph.vocabulary import Vocabulary

__all__ = [
    "CanonicalEtype",
    "HeteroGraph",
    "ReachStep",
    "Vocabulary",
    "edited",
    "formats",
    "from_dgl",
    "from_edge_index_dict",
    "from_networkx",
    "from_pyg",
    "from_scipy",
    "generate",
    "load",
    "reach",
    "renumbered",
    "to_dgl",
    "to_edge_index_dict",
    "to_networkx",
    "to_pyg",
    "to_scipy",
]
