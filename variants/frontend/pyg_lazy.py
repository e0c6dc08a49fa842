"""PyG's layers that learn the width of their input from the first call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter

from hetune.variants.graph.hetero import HeteroGraph


def is_uninitialized(module: nn.Module) -> bool:
    """Whether parameters have no shape yet."""
    return any(isinstance(parameter, UninitializedParameter) for parameter in module.parameters())


def initialize(module: Any, args: tuple[Any, ...]) -> None:
    """Gives a lazy `HGTConv` its parameters if a call has a `HeteroGraph`, which PyG takes none of.

    As its own first call does. What is no such layer or call is left as it is.

    Args:
        module: The layer.
        args: Of the call.
    """
    if type(module).__name__ != "HGTConv" or not is_uninitialized(module):
        return
    match args:
        case Tensor() as x, HeteroGraph() as graph if x.dim() == 2 and len(x) == graph.num_nodes:
            counts = torch.bincount(graph.ntype, minlength=graph.num_ntypes).tolist()
            rows = dict(zip(graph.ntype_names, torch.split(x, counts), strict=True))
        case Mapping() as x_dict, HeteroGraph():
            rows = dict(x_dict)
        case _:
            return
    known = module.kqv_lin.lins
    if all(isinstance(x, Tensor) and name in known for name, x in rows.items()):
        with torch.no_grad():
            module.kqv_lin(rows)
