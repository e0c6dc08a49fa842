"""What a measurement ran on: two fingerprints that differ must never be mixed silently."""

import hashlib
import json
import os
import subprocess
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from hetune.costmodel.fingerprint import this_machine

_PEERS = ("torch_geometric", "dgl")
_ROOT = Path(__file__).resolve().parents[1]


def fingerprint(threads: int) -> dict[str, Any]:
    """The machine's fingerprint, the peers' versions and settings, with a digest over all of it."""
    facts: dict[str, Any] = {
        **this_machine().as_dict(),
        "machine": this_machine().digest,
        "peers": {name: version_of(name) for name in _PEERS},
        "threads": threads,
        "allocator": "default",
    }
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]
    return {**facts, "digest": digest}


def commit() -> str | None:
    """The checkout's commit, with "-dirty" if tracked files differ; None outside a repository.

    Results are no part of what is measured: to write them makes nothing dirty.
    """
    head = first_line("git", "-C", str(_ROOT), "rev-parse", "HEAD")
    if head is None:
        return None
    code = (".", ":(exclude)benchmarks/results")
    changed = first_line("git", "-C", str(_ROOT), "status", "--porcelain", "-uno", "--", *code)
    return f"{head}-dirty" if changed else head


def write_record(path: Path, threads: int, **content: Any) -> None:
    """Writes results, after what they were measured on, when, and by which commit."""
    head = {
        "machine": fingerprint(threads),
        "commit": commit(),
        "measured_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**head, **content}, indent=1) + "\n", encoding="utf-8")


def set_threads(threads: int) -> None:
    """Let torch, and the OpenMP runtimes that read the environment later, use `threads`."""
    os.environ["OMP_NUM_THREADS"] = str(threads)
    torch.set_num_threads(threads)


def version_of(package: str) -> str | None:
    """Of an installed package; None if it is not there."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def first_line(*command: str) -> str | None:
    """That a command prints; None if it fails or prints nothing."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.splitlines()[0].strip() if done.stdout else None
