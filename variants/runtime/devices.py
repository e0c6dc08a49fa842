"""Devices of this machine."""

from __future__ import annotations

import torch

from hetune.variants.errors import VariantError
from hetune.variants.kernel.device import Device, device_named


def torch_device(device: Device | str) -> torch.device:
    """Where tensors lie for variants of a device; a GPU may be numbered, as in ``"cuda:1"``.

    Raises:
        VariantError: There is no such device, or it is not here.
    """
    kind, _, number = device.partition(":")
    is_numbered = number.isdecimal() and kind != "cpu"
    if device_named(kind) is None or (number and not is_numbered):
        raise VariantError(f"no device {device!r}: take one of cpu, cuda, cuda:0, cuda:1, ...")
    if kind == "cpu":
        return torch.device("cpu")
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if not count:
        raise VariantError(
            "no GPU: torch sees none here; install a build of torch for CUDA and the driver, or "
            "take the device cpu"
        )
    if int(number or 0) >= count:
        raise VariantError(f"no device {device!r}: there are {count} GPUs, numbered from 0")
    return torch.device("cuda", int(number) if number else torch.cuda.current_device())
