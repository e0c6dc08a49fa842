"""Dropout: masks are features of a program that calls draw themselves.

A mask depends on a seed and on the number of each element in the caller's order alone: it is the
same for all variants, threads and devices, and a backward draws it again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.program.dropout import dropout_mask
from hetune.variants.program.nodes import Param, Space


@dataclass(frozen=True, slots=True)
class DropoutMasks:
    """The masks of one call.

    Attributes:
        params: What they are to the program.
        shares: Of elements that are dropped, by name.
        graph: Of the call.
        seed: That torch's generator gave the call, 0 to 2**63.
    """

    params: Sequence[Param]
    shares: Mapping[str, float]
    graph: HeteroGraph
    seed: int

    def rows(self) -> dict[str, Tensor]:
        """A mask for each feature, float32 [rows, *row shape]; those of edges as ``graph.src``."""
        graph = self.graph
        counts = {Space.EDGE: graph.num_edges, Space.NODE: graph.num_targets}
        found = {}
        for number, param in enumerate(self.params):
            shape = counts[param.type.space], *param.type.shape
            share, seed = self.shares[param.name], self.seed + number
            found[param.name] = dropout_mask(shape, share, seed, graph.device)
        return found


def draw_masks(
    params: Sequence[Param], shares: Mapping[str, float], graph: HeteroGraph
) -> DropoutMasks:
    """Masks of a call, with a new seed of torch's default generator where there are some.

    Args:
        params: Features and constants of the program.
        shares: Of elements that are dropped, by the masks' names.
        graph: Of the call.
    """
    seed = int(torch.randint(2**63 - 1, (), device="cpu")) if shares else 0
    masks = tuple(param for param in params if param.name in shares)
    return DropoutMasks(masks, shares, graph, seed)
