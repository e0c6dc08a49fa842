"""Which tensor it is, and some of its elements: for what is kept by the tensors it was made of."""

from __future__ import annotations

import hashlib

import numpy as np
import torch
from torch import Tensor

from hetune.variants.graph.lazy_tensors import materialized


def identity(tensor: Tensor) -> object:
    """The id of a tensor that counts the writes to it; of one of inference mode, the content."""
    if not tensor.is_inference():
        return id(tensor)
    content = materialized(tensor.detach().cpu()).numpy().tobytes()
    return str(tensor.device), tensor.shape, str(tensor.dtype), hashlib.blake2b(content).digest()


def sample_of(tensor: Tensor) -> np.ndarray:
    """64 elements or so that are spread over a tensor, as they lie in its own memory."""
    if tensor._is_zerotensor():
        return np.empty(0, np.float32)  # there is no memory
    if tensor.is_neg():
        tensor = torch._neg_view(tensor)  # twice negated: the memory itself
    most = round(_SAMPLED ** (1 / max(1, tensor.dim())))
    if tensor.dtype is torch.bfloat16:
        tensor = tensor.view(torch.int16)  # which NumPy has
    return tensor.numpy()[tuple(slice(None, None, -(-size // most) or 1) for size in tensor.shape)]


_SAMPLED = 64
