"""Graphs from and to the forms that other libraries use."""

from hetune.variants.graph.convert.dgl import from_dgl, to_dgl
from hetune.variants.graph.convert.edge_index_dict import from_edge_index_dict, to_edge_index_dict
from hetune.variants.graph.convert.networkx import from_networkx, to_networkx
from hetune.variants.graph.convert.pyg import from_pyg, to_pyg
from hetune.variants.graph.convert.scipy import from_scipy, to_scipy

__all__ = [
    "from_dgl",
    "from_edge_index_dict",
    "from_networkx",
    "from_pyg",
    "from_scipy",
    "to_dgl",
    "to_edge_index_dict",
    "to_networkx",
    "to_pyg",
    "to_scipy",
]
