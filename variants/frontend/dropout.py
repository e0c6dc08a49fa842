"""Dropout: masks are features of a program that calls draw themselves.

A mask depends on a seed and on the number of each element in the caller's order alone: it is the
same for all variants, threads and devices, and a backward draws it again.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from hetune.variants.graph.hetero import HeteroGraph
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


def dropout_mask(shape: Sequence[int], share: float, seed: int, device: torch.device) -> Tensor:
    """What rows are multiplied by: 0 for dropped elements, ``1 / (1 - share)`` for others.

    Args:
        shape: Of the mask.
        share: Of elements that are dropped, each on its own, 0 to 1.
        seed: Other seeds give independent masks.
        device: Where to.

    Returns:
        float32 [*shape].
    """
    bits = torch.arange(torch.Size(shape).numel(), dtype=torch.int32, device=device)
    keys = hashlib.blake2b(str(seed).encode(), digest_size=8).digest()
    for key in struct.unpack("2i", keys):
        bits.add_(key)
        _mix(bits)
    least = round(share * 2**32) - 2**31
    kept = torch.zeros_like(bits, dtype=torch.bool) if least >= 2**31 else bits >= least
    return kept.float().mul_(1 / (1 - share) if share < 1 else 0.0).reshape(tuple(shape))


def _mix(bits: Tensor) -> None:
    """Makes each bit depend on all: a finalizer of 32 bits, by Wellons ("lowbias32", 2018)."""
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        bits.bitwise_xor_((bits >> shift).bitwise_and_((1 << 32 - shift) - 1))
        bits.mul_(_signed(factor))
    bits.bitwise_xor_((bits >> 16).bitwise_and_(0xFFFF))


def _signed(bits: int) -> int:
    """The lowest 32 bits as an int32."""
    return (bits & 0xFFFFFFFF ^ 1 << 31) - (1 << 31)
