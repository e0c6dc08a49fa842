"""The kinds of devices that kernels run on."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

Device: TypeAlias = Literal["cpu", "cuda"]
"""What code is made for."""
DEVICES: tuple[Device, ...] = get_args(Device)


def device_named(name: str) -> Device | None:
    """The device of that name, if there is one."""
    return next((device for device in DEVICES if device == name), None)
