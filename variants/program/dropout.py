"""Masks of dropout: a function of a seed and of an element's number."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence

import torch
from torch import Tensor


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
