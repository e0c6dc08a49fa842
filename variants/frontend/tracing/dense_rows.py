"""Rows of nodes that are given as a sparse tensor: what kernels read has all numbers."""

from __future__ import annotations

import threading
from collections.abc import MutableMapping

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

_LAYOUTS = (torch.sparse_coo, torch.sparse_csr, torch.sparse_csc)
_MADE: MutableMapping[Tensor, tuple[object, Tensor]] = WeakTensorKeyDictionary()
"""For each sparse tensor how it was, and the dense one."""
_LOCK = threading.Lock()


def as_dense(value: object) -> object:
    """The dense tensor of a sparse one of floats: the same one as long as that is not written to.

    Anything else is given back, as are sparse tensors whose gradients are wanted and those that
    count no writes.
    """
    if not isinstance(value, Tensor) or value.layout not in _LAYOUTS:
        return value
    if value.requires_grad or value.is_inference() or not value.is_floating_point():
        return value
    is_coo = value.layout is torch.sparse_coo
    numbers = value._values() if is_coo else value.values()
    state = numbers.data_ptr(), numbers._version, value._version
    with _LOCK:
        known = _MADE.get(value)
        if known is None or known[0] != state:
            with torch.inference_mode(False), torch.no_grad():
                known = _MADE[value] = state, value.to_dense()
        return known[1]
