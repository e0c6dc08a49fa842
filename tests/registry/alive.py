"""Whether processes have ended."""

import time
from pathlib import Path


def wait_for_end(pid: str) -> None:
    """Wait until a process has ended; it may still wait for its parent to notice."""
    deadline = time.monotonic() + 60
    while _runs(pid):
        assert time.monotonic() < deadline, f"process {pid} is still running"
        time.sleep(0.02)


def _runs(pid: str) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rsplit(")", 1)[1].split()[0] != "Z"
