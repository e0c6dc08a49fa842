"""Fuses kernels of a launch for a device: the last step of lowering."""

from __future__ import annotations

from hetune.variants.kernel.device import Device
from hetune.variants.kernel.nodes import Launch
from hetune.variants.kernel.passes.fuse_rows import fuse_rows
from hetune.variants.kernel.passes.fuse_softmax import fuse_softmax


def fused(launch: Launch, device: Device) -> Launch:
    """The launch that runs: fewer kernels, and less scratch.

    CPUs find what one kernel stores in a cache, and keep softmaxes and their sums apart.
    """
    return fuse_rows(launch if device == "cpu" else fuse_softmax(launch))
