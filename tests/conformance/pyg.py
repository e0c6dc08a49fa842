"""PyG's layers in float64: the oracle that others wrote."""

from __future__ import annotations

from copy import deepcopy
from unittest import mock

import pytest
import torch
from torch import Tensor, nn

from hetune.variants.graph.convert.edge_index_dict import to_edge_index_dict
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.testing.layers import hgt_widths

geometric = pytest.importorskip("torch_geometric")
from torch_geometric.nn import HGTConv, RGATConv, RGCNConv  # noqa: E402


def make(name: str, graph: HeteroGraph, width: int, heads: int) -> nn.Module:
    """PyG's layer for one of `LAYERS`, in the same widths."""
    kind, _, option = name.partition("-")
    match kind:
        case "rgcn":
            return RGCNConv(width, width, graph.num_etypes, aggr=option)
        case "rgat":
            mechanism = f"{option}-relation"
            return RGATConv(
                width, width, graph.num_etypes, heads=heads, attention_mechanism=mechanism
            )
    return HGTConv(*hgt_widths(width, heads), graph.metadata(), heads)


def run(module: nn.Module, x: Tensor, graph: HeteroGraph, other: Tensor) -> Tensor:
    """The result [N, width] of PyG's layer in float64.

    Rows that PyG does not return (node types that no edge type leads to) are those of ``other``.
    """
    module, x = deepcopy(module).double(), x.double()
    # With segment products PyG's mean is another one than its own loop's.
    with torch.no_grad(), mock.patch.object(geometric.backend, "use_segment_matmul", False):
        if not isinstance(module, HGTConv):
            return module(x, torch.stack((graph.src, graph.dst)).long(), graph.etype.long())
        # PyG concatenates what it is given: dictionaries must be in the order of its metadata.
        lengths = [b - a for a, b in zip(graph.node_offsets, graph.node_offsets[1:], strict=False)]
        x_dict = dict(zip(graph.ntype_names, x.split(lengths), strict=True))
        found = module(x_dict, to_edge_index_dict(graph))
    parts = other.split(lengths)
    return torch.cat(
        [found.get(name, part) for name, part in zip(graph.ntype_names, parts, strict=True)]
    )
