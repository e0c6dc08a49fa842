"""What commands run layers on: this CPU, or a GPU."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Self

import psutil
import torch

from hetune.clients.cli import console
from hetune.variants.backends.base import Backend
from hetune.variants.backends.cpp.backend import CppBackend
from hetune.variants.backends.triton.backend import TritonBackend
from hetune.variants.kernel.device import Device
from hetune.variants.kernel.precision import Precision
from hetune.variants.runtime.backends import backend_for
from hetune.variants.runtime.devices import torch_device


@dataclass(frozen=True, slots=True)
class RunDevice:
    """A device, and the backend that runs layers there.

    Attributes:
        device: Where tensors lie.
        backend: What runs layers.
    """

    device: torch.device
    backend: Backend

    @classmethod
    def named(cls, name: str, precision: Precision = "float32") -> Self:
        """By a name that a user gives: "cpu", "cuda" or "cuda:1".

        Args:
            name: The device's.
            precision: As of `hetune.compile`.

        Raises:
            VariantError: There is no such device, or it is not here.
        """
        device = torch_device(name)
        return cls(device, backend_for([device], precision))

    @classmethod
    def planned(cls, target: Device) -> Self:
        """What is made for a device, where nothing is run: it need not be here."""
        return cls(torch.device("cpu"), CppBackend() if target == "cpu" else TritonBackend())

    @property
    def target(self) -> Device:
        """What variants are made for."""
        return self.backend.target

    def now(self) -> float:
        """Seconds, once all that was started has ended."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.perf_counter()

    def free_bytes(self) -> int:
        """Memory that is free."""
        if self.device.type == "cuda":
            return int(torch.cuda.mem_get_info(self.device)[0])
        return int(psutil.virtual_memory().available)

    def describe(self) -> str:
        """Such as "2 threads", or the GPU's name."""
        if self.device.type == "cuda":
            return torch.cuda.get_device_name(self.device)
        if self.target == "cuda":
            return "a GPU"
        return console.counted(torch.get_num_threads(), "thread")
