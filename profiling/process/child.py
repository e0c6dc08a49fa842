"""Child processes: how one ended, and how one ends with its parent."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from typing import IO

_LAST_BYTES = 2000


def describe_end(process: str, status: int, output: IO[bytes]) -> str:
    """How a process ended, for a reader, with its last words.

    Args:
        process: What messages call it, such as ``"the process that trains"``.
        status: Its exit status; the negative number of the signal that ended it.
        output: What it wrote.
    """
    if status == -signal.SIGKILL:
        return f"{process} was killed, as the system does where memory runs out"
    how = f"signal {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
    output.seek(0, os.SEEK_END)
    output.seek(max(0, output.tell() - _LAST_BYTES))
    words = output.read().decode(errors="replace").strip()
    return f"{process} ended with {how}{': ' if words else ''}{words}"


def end_with_parent(end: Callable[[], object]) -> None:
    """Calls something when the standard input ends, whose other end only the parent has."""

    def watch() -> None:
        while os.read(0, 1):  # not sys.stdin, whose lock this thread would hold in the end
            pass
        end()

    threading.Thread(target=watch, daemon=True).start()
