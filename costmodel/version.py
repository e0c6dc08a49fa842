"""Which code this is."""

from __future__ import annotations

import functools
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


def release() -> str:
    """The version; "unknown" in a checkout that is used as it lies, without an installation."""
    try:
        return version("hetune")
    except PackageNotFoundError:
        return "unknown"


@functools.cache
def code_version() -> str:
    """The version, and in a checkout the commit: ``"0.1.0+g1a2b3c4d5e6f"``.

    A commit ends in ``.dirty`` if tracked files differ from it.
    """
    here = Path(__file__).resolve()
    # An installed package may lie in someone else's repository: there, nobody tracks this file.
    if _git(here.parent, "ls-files", "--error-unmatch", here.name) is None:
        return release()
    commit = _git(here.parent, "rev-parse", "--short=12", "HEAD")
    dirty = _git(here.parent, "status", "--porcelain", "--untracked-files=no")
    return f"{release()}+g{commit}{'.dirty' if dirty else ''}"


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(  # noqa: S603
            ["git", "-C", str(folder), *arguments],  # noqa: S607
            capture_output=True,
            text=True,
            check=True,
            timeout=10,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
