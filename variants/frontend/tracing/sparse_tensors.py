"""Sparse tensors in calls, and what is made of them once for all calls that have them."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import Any, TypeGuard, TypeVar

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from hetune.variants.fork_locks import new_rlock
from hetune.variants.graph.tensor_identity import sample_of

_T = TypeVar("_T")
_PARTS: dict[torch.layout, tuple[Callable[[Tensor], Tensor], ...]] = {
    torch.sparse_coo: (Tensor._values, Tensor._indices),
    torch.sparse_csr: (Tensor.values, Tensor.crow_indices, Tensor.col_indices),
    torch.sparse_csc: (Tensor.values, Tensor.ccol_indices, Tensor.row_indices),
}
_MADE: MutableMapping[Tensor, dict[object, tuple[object, Any]]] = WeakTensorKeyDictionary()
"""For each sparse tensor what was made of it by which function, and how the tensor was then."""
_LOCK = new_rlock()


def is_sparse(value: object) -> TypeGuard[Tensor]:
    """Whether a value is one of torch's sparse tensors."""
    return isinstance(value, Tensor) and value.layout in _PARTS


def made_of(tensor: Tensor, make: Callable[[Tensor], _T]) -> _T:
    """What a function makes of a sparse tensor: the same one as long as that is not written to.

    Writes through the tensors that it was made of are seen, too, on a CPU as far as some elements
    show. Tensors that inference mode made count no writes: of these it is made anew.
    """
    with _LOCK, torch.inference_mode(False), torch.no_grad():
        if tensor.is_inference():
            return make(tensor)
        state = tensor._version, *(_state(part(tensor)) for part in _PARTS[tensor.layout])
        known = _MADE.setdefault(tensor, {})
        if make not in known or known[make][0] != state:
            known[make] = state, make(tensor.detach())
        made: _T = known[make][1]
        return made


def as_dense(value: object) -> object:
    """The dense tensor of a sparse one of floats: see `made_of`.

    Anything else is given back, as are sparse tensors whose gradients are wanted and those that
    count no writes.
    """
    if not is_sparse(value) or value.requires_grad or value.is_inference():
        return value
    return made_of(value, Tensor.to_dense) if value.is_floating_point() else value


def _state(part: Tensor) -> tuple[object, ...]:
    elements = sample_of(part).tobytes() if part.device.type == "cpu" else b""
    return part.data_ptr(), part._version, part.shape, elements
