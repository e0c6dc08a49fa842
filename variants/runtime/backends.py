"""The backends by name."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn

from hetune.variants.backends.base import Backend
from hetune.variants.backends.cpp.backend import CppBackend
from hetune.variants.backends.torch.backend import TorchBackend
from hetune.variants.backends.triton.backend import TritonBackend
from hetune.variants.errors import InputError, VariantError
from hetune.variants.kernel.precision import Precision

_ON_GPU = {"float32": "ieee", "bf16": "bf16"}
"""What products are computed in there."""


def backend_of(
    module: nn.Module, backend: str | Backend | None, precision: Precision = "float32"
) -> Backend:
    """The backend that was named, or else the one for where the module's parameters are.

    Raises:
        InputError: The module is none.
        VariantError: There is none of that name.
    """
    if not isinstance(module, nn.Module):
        raise InputError(f"{type(module).__name__} is no torch.nn.Module: give it a layer")
    if backend is None:
        return backend_for((parameter.device for parameter in module.parameters()), precision)
    return backend_named(backend, precision)


def backend_for(devices: Iterable[torch.device], precision: Precision = "float32") -> Backend:
    """The backend for a module whose parameters are on these devices.

    That is Triton if one of them is a GPU, else C++.
    """
    on_gpu = any(device.type == "cuda" for device in devices)
    return TritonBackend(_ON_GPU[precision]) if on_gpu else CppBackend()


def backend_named(backend: str | Backend, precision: Precision = "float32") -> Backend:
    """The backend of that name; a backend is its own.

    Raises:
        VariantError: There is none of that name.
    """
    match backend:
        case "cpp":
            return CppBackend()
        case "torch":
            return TorchBackend()
        case "triton":
            return TritonBackend(_ON_GPU[precision])
        case str(name):
            raise VariantError(f"no backend {name!r}: take 'cpp', 'torch' or 'triton'")
    return backend
