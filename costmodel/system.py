"""What the operating system says of the hardware, and of the limits that this process is under.

Every reader takes the root of the file system, and answers None or nothing where a system keeps no
such file: none of them fails.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

ROOT = Path("/")

_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_SYSCONF_CACHES = {
    "L1d": "SC_LEVEL1_DCACHE_SIZE",
    "L1i": "SC_LEVEL1_ICACHE_SIZE",
    "L2": "SC_LEVEL2_CACHE_SIZE",
    "L3": "SC_LEVEL3_CACHE_SIZE",
}
_GPU_SECONDS = 20.0


class Cpu(NamedTuple):
    """A processor: its name, family/model/stepping, and everything that it says it can do."""

    name: str | None
    identity: str | None
    flags: tuple[str, ...]


def read_cpu(root: Path = ROOT) -> Cpu:
    """The first processor; flags are sorted."""
    facts: dict[str, str] = {}
    for line in _text(root / "proc/cpuinfo").splitlines():
        key, _, value = line.partition(":")
        facts.setdefault(key.strip(), value.strip())
    x86 = ("cpu family", "model", "stepping")
    arm = ("CPU implementer", "CPU architecture", "CPU variant", "CPU part", "CPU revision")
    keys = x86 if "cpu family" in facts else arm
    identity = "/".join(facts.get(key, "?") for key in keys)
    flags = facts.get("flags", facts.get("Features", ""))
    return Cpu(
        facts.get("model name") or None,
        identity if any(key in facts for key in keys) else None,
        tuple(sorted(set(flags.split()))),
    )


def read_caches(root: Path = ROOT) -> tuple[tuple[str, int], ...]:
    """Bytes of the caches that the first processor uses, by name: L1d, L1i, L2, L3."""
    found: dict[str, int] = {}
    for folder in sorted((root / "sys/devices/system/cpu/cpu0/cache").glob("index*")):
        level, kind = _text(folder / "level").strip(), _text(folder / "type").strip()
        size = re.fullmatch(r"(\d+)([KMG]?)", _text(folder / "size").strip())
        if level and size:
            name = f"L{level}" + {"Data": "d", "Instruction": "i"}.get(kind, "")
            found[name] = int(size[1]) * _UNITS.get(size[2], 1)
    if not found and root == ROOT and hasattr(os, "sysconf"):
        for name, key in _SYSCONF_CACHES.items():
            size_bytes = os.sysconf(key) if key in os.sysconf_names else 0
            if size_bytes > 0:
                found[name] = size_bytes
    return tuple(sorted(found.items()))


def read_cpu_quota(root: Path = ROOT) -> float | None:
    """Processors' worth of time that control groups allow; None without a limit."""
    quotas = []
    for folder in _control_groups(root, "cpu"):
        text = _text(folder / "cpu.max") or " ".join(
            _text(folder / f"cpu.cfs_{name}_us").strip() for name in ("quota", "period")
        )
        match = re.fullmatch(r"(\d+) (\d+)", text.strip())
        if match and int(match[2]):
            quotas.append(int(match[1]) / int(match[2]))
    return min(quotas, default=None)


def read_memory_limit(root: Path = ROOT) -> int | None:
    """Bytes that control groups allow; None without a limit."""
    limits = []
    for folder in _control_groups(root, "memory"):
        text = _text(folder / "memory.max") or _text(folder / "memory.limit_in_bytes")
        # Version 1 says "no limit" with the largest number of pages.
        if text.strip().isdecimal() and int(text) < 1 << 62:
            limits.append(int(text))
    return min(limits, default=None)


def read_gpu(root: Path = ROOT) -> tuple[str | None, str | None]:
    """Names of the NVIDIA GPUs and their driver's version; no library of NVIDIA's is started."""
    pages = sorted((root / "proc/driver/nvidia/gpus").glob("*/information"))
    models = [re.search(r"^Model:\s*(.+?)\s*$", _text(page), re.M) for page in pages]
    names = [match[1] for match in models if match]
    driver = re.search(r"(?<!\S)\d+\.\d+(\.\d+)?(?!\S)", _text(root / "proc/driver/nvidia/version"))
    if not names:
        return _query_names()
    return ", ".join(names), driver[0] if driver else None


def read_gpu_details() -> tuple[str | None, str | None]:
    """Compute capabilities of the NVIDIA GPUs and their memory, e.g. ``"9.0"``, ``"81559 MiB"``."""
    rows = _query("compute_cap", "memory.total")
    if not rows:
        return None, None
    return ", ".join(row[0] for row in rows), ", ".join(row[1] for row in rows)


def read_gpu_clocks(gpu: str) -> tuple[float, ...]:
    """Clocks of a GPU's multiprocessors and memory in MHz, as they are now; () if nothing tells.

    Args:
        gpu: As nvidia-smi takes it: its number, or its UUID.
    """
    for row in _query("clocks.sm", "clocks.mem", gpu=gpu):
        try:
            return tuple(float(value.removesuffix(" MHz")) for value in row)
        except ValueError:  # "[N/A]"
            return ()
    return ()


def _query_names() -> tuple[str | None, str | None]:
    rows = _query("name", "driver_version")
    if not rows:
        return None, None
    return ", ".join(name for name, _ in rows), rows[0][1]


def _query(*facts: str, gpu: str | None = None) -> list[list[str]]:
    """What nvidia-smi says of two facts and more, a row for each GPU; nothing where it cannot."""
    command = shutil.which("nvidia-smi")
    if command is None:
        return []
    query = [command, f"--query-gpu={','.join(facts)}", "--format=csv,noheader"]
    query += [] if gpu is None else [f"--id={gpu}"]
    try:
        done = subprocess.run(  # noqa: S603  no shell; the arguments are ours
            query, capture_output=True, text=True, timeout=_GPU_SECONDS, check=True
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return []
    rows = [line.split(", ") for line in done.stdout.splitlines()]
    return [row for row in rows if len(row) == len(facts)]


def _control_groups(root: Path, controller: str) -> Iterator[Path]:
    """Folders of the groups that this process is in, inside out: each may set a limit."""
    mounts = root / "sys/fs/cgroup"
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if not controllers:
            bases = [mounts, mounts / "unified"]
        elif controller in controllers.split(","):
            bases = [mounts / controller]
        else:
            continue
        # A process may have been moved out of the part of the tree that it sees.
        inner = PurePosixPath(*(p for p in PurePosixPath(path).parts if p not in ("/", "..")))
        for base in bases:
            yield from (base / folder for folder in (inner, *inner.parents))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
