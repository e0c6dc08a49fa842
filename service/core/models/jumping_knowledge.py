"""Jumping connections: what all layers give out, joined."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from hetune.service.core.graphs.rows import Rows
from hetune.service.core.models.description import ModelDescription


def join(layers: Sequence[Rows], description: ModelDescription) -> Rows:
    """What a model with jumping connections gives out.

    Args:
        layers: Rows of each layer, of the same nodes; all tensors, or all by node type.
        description: Of the model.

    Returns:
        Float32 [nodes, description.out_channels], or that by node type.
    """
    first = layers[0]
    if isinstance(first, Tensor):
        return _joined([rows for rows in layers if isinstance(rows, Tensor)], description)
    by_type = [rows for rows in layers if isinstance(rows, Mapping)]
    return {name: _joined([rows[name] for rows in by_type], description) for name in first}


def _joined(layers: Sequence[Tensor], description: ModelDescription) -> Tensor:
    if description.jumping == "cat":
        return torch.cat(tuple(layers), dim=1)
    return functools.reduce(torch.maximum, layers)
