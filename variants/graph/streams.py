"""What is made once on a GPU, by one stream's work, and read by all."""

from __future__ import annotations

import time

import torch


def synchronize(device: torch.device | None) -> bool:
    """Waits until a GPU's current stream has done all its work, so that other streams see it.

    Args:
        device: Where something was made; nothing is waited for on the CPU (or None).

    Returns:
        Whether it is there: not while somebody records the stream as a CUDA graph, when no kernel
        runs.
    """
    if device is None or device.type != "cuda":
        return True
    with torch.cuda.device(device):
        if torch.cuda.is_current_stream_capturing():
            return False
        torch.cuda.current_stream().synchronize()
    return True


def now_on(device: torch.device, exact: bool) -> float:
    """Seconds of a clock; exact ones wait for what was started on a GPU."""
    if exact and device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()
