"""What torch does around a call: where kernels would go unseen, or see rounded numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

# Every call of a layer asks: looking names up in torch's large modules takes longer than asking.
_tracing_state = torch._C._get_tracing_state
_top_transform = torch._C._functorch.peek_interpreter_stack
_dispatch_modes = torch._C._len_torch_dispatch_stack
_records_gradients = torch.is_grad_enabled


def transform() -> str | None:
    """What is at work where operators do not just run: kernels would not be seen by it."""
    if _tracing_state() is not None:
        return "torch.jit traces the call"
    if _top_transform() is not None:
        return "a transform of torch.func is at work"
    if _dispatch_modes():
        return "a dispatch mode, as of torch.export, is at work"
    return None


def is_plain(device: str, has_gradients: bool = False) -> bool:
    """Whether nothing is at work, neither autocast on a kind of device, nor gradients.

    Args:
        device: The kind of device.
        has_gradients: Whether gradients are to be recorded.
    """
    return (
        _records_gradients() is has_gradients
        and transform() is None
        and forward_ad._current_level < 0
        and not torch.is_autocast_enabled(device)
    )


def needs_gradients(tensors: Callable[[], Iterable[Tensor]]) -> bool:
    """Whether gradients by some tensors may be asked for.

    Args:
        tensors: Gives them; not called where nothing is recorded.
    """
    return _records_gradients() and any(tensor.requires_grad for tensor in tensors())


def has_tangents(tensors: Callable[[], Iterable[Tensor]]) -> bool:
    """Whether some tensors carry derivatives forward, as of `torch.autograd.forward_ad`.

    Args:
        tensors: Gives them; not called where none does.
    """
    if forward_ad._current_level < 0:
        return False
    unpack: Callable[[Tensor], Any] = forward_ad.unpack_dual
    return any(unpack(tensor).tangent is not None for tensor in tensors())
