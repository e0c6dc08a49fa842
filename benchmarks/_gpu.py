"""Timing on a GPU, and what its numbers were measured on. With "cpu" it times the interpreter."""

import importlib.util
import platform
import statistics
import subprocess
import time
from collections.abc import Callable
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

_HERE = Path(__file__).resolve().parent
PACKAGES = ("torch", "triton", "numpy", "torch_geometric", "platformdirs")
_MOST_MS = 2000.0
_LEAST_ROUNDS = 3
_FLUSHED = 256 << 20
"""Bytes that are written between two runs: more than the L2 cache of any card."""


def card(device: str) -> dict[str, Any]:
    """The card with its driver, and the versions of what runs on it."""
    facts: dict[str, Any] = {"python": platform.python_version()}
    facts |= {name: _version(name) for name in PACKAGES}
    if device == "cpu":
        return {"card": "cpu, interpreted", **facts}
    properties = torch.cuda.get_device_properties(0)
    return {
        "card": properties.name,
        "capability": ".".join(map(str, torch.cuda.get_device_capability(0))),
        "memory_bytes": properties.total_memory,
        "multiprocessors": properties.multi_processor_count,
        "cuda": torch.version.cuda,
        "driver": _smi("driver_version"),
        **facts,
    }


def commit() -> str | None:
    """The checkout's commit, with "-dirty" if tracked files differ; None outside a repository."""
    head = _said("git", "rev-parse", "HEAD")
    return f"{head}-dirty" if head and _said("git", "status", "--porcelain", "-uno") else head


def clocks(device: str) -> str | None:
    """Clocks of multiprocessors and memory in MHz, as they are now."""
    return None if device == "cpu" else _smi("clocks.sm,clocks.mem")


def milliseconds(run: Callable[[], Any], device: str, rounds: int) -> dict[str, Any]:
    """Median, minimum and all times of a call, each with a cold L2 cache, after two to warm up.

    There are fewer rounds where they would take more than two seconds. What a call enqueues is
    timed between two events on its stream, so that starting it counts where the card waits for it.
    """
    if device == "cpu":
        return _summary([_wall(run) for _ in range(rounds)])
    slowest = max(_cold_time(run) for _ in range(2))
    rounds = max(_LEAST_ROUNDS, min(rounds, int(_MOST_MS / slowest)))
    return _summary([_cold_time(run) for _ in range(rounds)])


def peak_bytes(run: Callable[[], Any], device: str) -> int | None:
    """Bytes that torch's allocator held at most during a call, beside what it held before."""
    if device == "cpu":
        return None
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    run()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


def missing() -> list[str]:
    """Packages that are not here, and are of use."""
    return [name for name in PACKAGES if importlib.util.find_spec(name) is None]


def _cold_time(run: Callable[[], Any]) -> float:
    _cold().zero_()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    run()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end)


def _wall(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    run()
    return 1e3 * (time.perf_counter() - start)


def _summary(times: list[float]) -> dict[str, Any]:
    rounded = [round(value, 5) for value in times]
    return {"median_ms": statistics.median(rounded), "min_ms": min(rounded), "times_ms": rounded}


@cache
def _cold() -> torch.Tensor:
    return torch.empty(_FLUSHED, dtype=torch.int8, device="cuda")


def _smi(fields: str) -> str | None:
    return _said("nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits")


def _said(*command: str) -> str | None:
    """The first line that a command prints; None if it fails or prints nothing."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=20, check=True, cwd=_HERE
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.splitlines()[0].strip() if done.stdout else None


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
