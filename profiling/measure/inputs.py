"""Random inputs of a program: the same for all candidates of a problem."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hetune.variants.program.nodes import Program
from hetune.variants.runtime.domain import Domain


@dataclass(frozen=True, slots=True)
class Inputs:
    """Tensors [rows, *row shape] by parameter, float32.

    Attributes:
        features: Rows of nodes and edges, constants among them.
        weights: The others.
    """

    features: dict[str, Tensor]
    weights: dict[str, Tensor]


def random_inputs(program: Program, domain: Domain, seed: int) -> Inputs:
    """Signed random numbers, weights scaled so that widths do not make results large.

    Without that scale, attention would look at one edge alone and hide mistakes about the others.
    """
    draw = torch.Generator().manual_seed(seed)
    found = Inputs({}, {})
    for param in program.params:
        shape = param.type.shape
        values = torch.randn((domain.buffer_rows(param.type), *shape), generator=draw)
        if param.role != "weight":
            found.features[param.name] = values
        else:
            found.weights[param.name] = values.mul_(max(shape, default=1) ** -0.5)
    return found
