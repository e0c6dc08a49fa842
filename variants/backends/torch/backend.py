"""Launches run by the kernel interpreter."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from hetune.variants.backends.base import Place, Runner, only_on_cpu
from hetune.variants.kernel.device import Device
from hetune.variants.kernel.gpu_schedule import AnySchedule
from hetune.variants.kernel.interpret import interpret
from hetune.variants.kernel.nodes import Launch
from hetune.variants.kernel.scratch import scratch_rows, whole_scratch
from hetune.variants.kernel.verify import verify


class TorchBackend:
    """Plain torch operators; the schedule makes no difference."""

    name = "torch"
    indexes_on_device = False
    keeps_indexes = False
    target: Device = "cpu"
    schedule = None

    def refusal(self, device: torch.device) -> str:
        """Why it does not run on tensors of a device."""
        return only_on_cpu(device)

    def is_ready(self, launch: Launch, schedule: AnySchedule) -> bool:
        """Always: nothing is compiled."""
        return True

    def bind(self, launch: Launch, schedule: AnySchedule, place: Place) -> Runner:
        """A runner over tensors of any float dtype.

        Raises:
            KernelError: A kernel breaks a rule of the IR.
        """
        verify(launch)
        lasting = [buffer.name for buffer in launch.buffers if not buffer.scratch]

        def run(buffers: Mapping[str, Tensor]) -> bool:
            scratch = _scratch(launch, place, buffers[lasting[0]].dtype)
            interpret(launch, {**scratch, **buffers}, place.index, place.graph)
            return not all(bool(buffers[name].isfinite().all()) for name in lasting)

        return run


def _scratch(launch: Launch, place: Place, dtype: torch.dtype) -> dict[str, Tensor]:
    """Memory for all rows of scratch buffers: the interpreter runs all blocks at once.

    It is full of NaN: what is read but never written shows.
    """
    sizes = whole_scratch(launch, place.count)
    memory = {
        name: torch.full((size,), torch.nan, dtype=dtype, device="cpu")
        for name, size in sizes.items()
    }
    found: dict[str, Tensor] = {}
    for buffer in launch.buffers:
        if buffer.scratch:
            rows = place.count(scratch_rows(buffer))
            flat = memory[buffer.scratch][: rows * buffer.type.width]
            found[buffer.name] = flat.view(rows, *buffer.type.shape)
    return found
