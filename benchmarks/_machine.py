"""What a measurement ran on: two fingerprints that differ must never be mixed silently."""

import hashlib
import json
import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil
import torch

_PACKAGES = ("torch", "torch_geometric", "dgl", "numpy", "hetune")
_ROOT = Path(__file__).resolve().parents[1]


def fingerprint(threads: int, allocator: str = "default") -> dict[str, Any]:
    """CPU, memory, kernel, compiler, versions and settings, with a digest over all of them."""
    model, flags = _cpu()
    facts: dict[str, Any] = {
        "cpu": model,
        "cpu_flags_sha256": hashlib.sha256(" ".join(sorted(flags)).encode()).hexdigest()[:16],
        "cores": psutil.cpu_count(logical=False) or os.cpu_count(),
        "logical_cpus": len(os.sched_getaffinity(0)),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "kernel": platform.release(),
        "compiler": _first_line("c++", "--version"),
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in _PACKAGES},
        "threads": threads,
        "allocator": allocator,
    }
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]
    return {**facts, "digest": digest}


def commit() -> str | None:
    """The checkout's commit, with "-dirty" if tracked files differ; None outside a repository."""
    head = _first_line("git", "-C", str(_ROOT), "rev-parse", "HEAD")
    if head is None:
        return None
    changed = _first_line("git", "-C", str(_ROOT), "status", "--porcelain", "-uno")
    return f"{head}-dirty" if changed else head


def set_threads(threads: int) -> None:
    """Let torch, and the OpenMP runtimes that read the environment later, use `threads`."""
    os.environ["OMP_NUM_THREADS"] = str(threads)
    torch.set_num_threads(threads)


def _cpu() -> tuple[str, list[str]]:
    lines: dict[str, str] = {}
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text().splitlines():
            key, _, value = line.partition(":")
            lines.setdefault(key.strip(), value.strip())
    model = lines.get("model name", platform.processor() or platform.machine())
    family = "/".join(lines.get(key, "?") for key in ("cpu family", "model", "stepping"))
    return f"{model} ({family})", lines.get("flags", "").split()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _first_line(*command: str) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.splitlines()[0] if done.stdout else None
