"""A tensor's numbers as they lie in memory, where torch would only note what they are.

torch keeps some tensors lazily: with a bit that says "read me negated" (the imaginary part of a
conjugate has it), or without memory where all is zero. Its own operators know; whoever reads
through `data_ptr` or `numpy` has to ask.
"""

from __future__ import annotations

from torch import Tensor


def is_lazy(tensor: Tensor) -> bool:
    """Whether the numbers are not the ones in the tensor's memory."""
    return tensor.is_neg() or tensor.is_conj() or tensor._is_zerotensor()


def materialized(tensor: Tensor) -> Tensor:
    """The tensor, or a copy whose memory holds its numbers, contiguous."""
    return (tensor.clone() if is_lazy(tensor) else tensor).contiguous()
