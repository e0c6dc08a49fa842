"""What numbers were measured on: the card, its clocks, the versions of what runs on it."""

import importlib.util
import platform
from typing import Any

import torch
from _machine import first_line, version_of

PACKAGES = ("torch", "triton", "numpy", "torch_geometric", "platformdirs")
_CLOCKS = ("clocks.sm", "clocks.mem", "temperature.gpu", "power.draw")


def card(device: str) -> dict[str, Any]:
    """The card with its driver, and the versions of what runs on it."""
    facts: dict[str, Any] = {"python": platform.python_version()}
    facts |= {name: version_of(name) for name in PACKAGES}
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
    return first_line("nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits")
