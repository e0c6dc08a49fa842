"""What numbers were measured on: the card, its clocks, the versions of what runs on it."""

import importlib.util
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

_HERE = Path(__file__).resolve().parent
PACKAGES = ("torch", "triton", "numpy", "torch_geometric", "platformdirs")
_CLOCKS = ("clocks.sm", "clocks.mem", "temperature.gpu", "power.draw")


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


def clocks(device: str) -> dict[str, float] | None:
    """Clocks of multiprocessors and memory in MHz, degrees and watts, as they are now.

    None where nothing tells: on a CPU, or without nvidia-smi.
    """
    said = None if device == "cpu" else _smi(",".join(_CLOCKS))
    if said is None:
        return None
    found = {}
    for name, value in zip(_CLOCKS, said.split(","), strict=False):
        try:
            found[name] = float(value)
        except ValueError:  # "[N/A]"
            continue
    return found


def missing() -> list[str]:
    """Packages that are not here, and are of use."""
    return [name for name in PACKAGES if importlib.util.find_spec(name) is None]


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
