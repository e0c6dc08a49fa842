"""Devices that layers run on: their memory and their clock, and nothing of what is computed."""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch
from torch import Tensor

from hetune.variants.backends.triton.ahead import OLDEST
from hetune.variants.graph.hetero import HeteroGraph


@dataclass(frozen=True, slots=True)
class Usage:
    """Memory of a device, in bytes.

    Attributes:
        held: In tensors of this process.
        reserved: That this process has taken from the device, these included.
        total: What the device has.
    """

    held: int
    reserved: int
    total: int


class ComputeDevice:
    """Where layers run: this machine's own memory and processors, unless a subclass says otherwise.

    Attributes:
        torch_device: Where its tensors lie.
        is_host: Whether its memory is the one that requests are read into: nothing has to be
            copied.
    """

    torch_device = torch.device("cpu")
    is_host = True

    @property
    def architecture(self) -> str | None:
        """What kernels are compiled for ahead of time, as `build` takes it; None: they are not."""
        return None

    def put(self, rows: Tensor) -> Tensor:
        """Rows of the host on the device."""
        return rows

    def place(self, graph: HeteroGraph) -> HeteroGraph:
        """A copy of the host's graph on the device."""
        return graph

    def fetch(self, rows: Tensor) -> Tensor:
        """Rows of the device on the host."""
        return rows

    def now(self) -> float:
        """Seconds, once all that was started has ended."""
        return time.perf_counter()

    def usage(self) -> Usage | None:
        """How its memory is used; None for the host's, which is looked after elsewhere."""
        return None

    def release(self) -> None:
        """Gives back what is reserved and not held."""

    def check(self) -> None:
        """Asks it for a sign of life.

        Raises:
            RuntimeError: It gives none.
        """


class GpuDevice(ComputeDevice):
    """A GPU of this machine. All is done on its default stream, in the order of the calls.

    Args:
        device: It, with its number.
    """

    is_host = False

    def __init__(self, device: torch.device) -> None:
        self.torch_device = device

    @property
    def architecture(self) -> str | None:
        """What Triton compiles for; None for a GPU that is too old for it to do so ahead."""
        major, minor = torch.cuda.get_device_capability(self.torch_device)
        capability = 10 * major + minor
        return f"cuda:sm_{capability}" if capability >= OLDEST else None

    def put(self, rows: Tensor) -> Tensor:
        """Rows of the host on the device; the host may go on, and change what it gave."""
        # The driver has read all of memory that is not pinned before the call returns.
        return rows.to(self.torch_device, non_blocking=True)

    def place(self, graph: HeteroGraph) -> HeteroGraph:
        """A copy of the host's graph on the device."""
        return graph.to(self.torch_device)

    def fetch(self, rows: Tensor) -> Tensor:
        """Rows of the device on the host, once they are computed."""
        return rows.cpu()

    def now(self) -> float:
        """Seconds, once all that was started has ended."""
        torch.cuda.synchronize(self.torch_device)
        return time.perf_counter()

    def usage(self) -> Usage:
        """How its memory is used; costs no word with the device."""
        return Usage(
            torch.cuda.memory_allocated(self.torch_device),
            torch.cuda.memory_reserved(self.torch_device),
            torch.cuda.get_device_properties(self.torch_device).total_memory,
        )

    def release(self) -> None:
        """Gives back what torch keeps for later."""
        with torch.cuda.device(self.torch_device):  # or it would begin to use the first one
            torch.cuda.empty_cache()

    def check(self) -> None:
        """Asks the driver for free memory, which does not wait for what runs.

        Raises:
            RuntimeError: It does not answer.
        """
        torch.cuda.mem_get_info(self.torch_device)
