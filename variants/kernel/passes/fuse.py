"""Fuses kernels of a launch for a device: the last step of lowering."""

from __future__ import annotations

from hetune.variants.kernel.device import Device
from hetune.variants.kernel.nodes import Launch
from hetune.variants.kernel.passes.fuse_rows import fuse_rows
from hetune.variants.kernel.passes.fuse_softmax import fuse_softmax
from hetune.variants.kernel.passes.one_pass import one_pass


def fused(launch: Launch, device: Device, in_one_pass: bool = False) -> Launch:
    """The launch that runs: fewer kernels, and less scratch.

    CPUs find what one kernel stores in a cache, and keep softmaxes and their sums apart unless
    they are to run in one pass.
    """
    if device != "cpu":
        launch = fuse_softmax(launch)
    elif in_one_pass:
        launch = one_pass(launch)
    return fuse_rows(launch)
