"""Units that need not run alone, side by side: each worker is a process with a context of its own.

A worker reads a unit's key from standard input and answers with a line of JSON. One that dies, or
hangs, loses its unit alone: the next unit gets a new one.
"""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from typing import Any

WORKER_S = 420.0
"""Seconds after which a worker is killed that has not answered."""


class Worker:
    """A process of the same command that runs units; it starts with the first."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command
        self._process: subprocess.Popen[str] | None = None

    def run(self, key: str) -> dict[str, Any]:
        """A unit's result."""
        if self._process is None:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        timer = threading.Timer(WORKER_S, process.kill)
        timer.start()
        try:
            process.stdin.write(f"{key}\n")
            process.stdin.flush()
            said = process.stdout.readline()
        except OSError:
            said = ""
        finally:
            timer.cancel()
        if said:
            found: dict[str, Any] = json.loads(said)
            return found
        self.end()
        return {"failed": f"its process ended with status {process.returncode} and no result"}

    def end(self) -> None:
        """Ends the process."""
        if self._process is not None:
            self._process.kill()
            with suppress(BrokenPipeError):  # of what it was asked and did not read
                self._process.communicate()
            self._process = None


def side_by_side(
    keys: Sequence[str], jobs: int, deadline: float, command: Sequence[str] | None = None
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Results of units as they come.

    Args:
        keys: The units.
        jobs: How many processes there are at once.
        deadline: When no unit begins any more, by `time.monotonic`.
        command: What a worker runs; this process's own command with ``--worker`` if None.
    """
    command = command or [sys.executable, *sys.argv, "--worker"]
    workers, own = list[Worker](), threading.local()

    def run(key: str) -> dict[str, Any] | None:
        if time.monotonic() > deadline:
            return None
        if not hasattr(own, "worker"):
            own.worker = Worker(command)
            workers.append(own.worker)
        found: dict[str, Any] = own.worker.run(key)
        return found

    with ThreadPoolExecutor(jobs) as pool:
        asked = {pool.submit(run, key): key for key in keys}
        for done in as_completed(asked):
            if (result := done.result()) is not None:
                yield asked[done], result
    for worker in workers:
        worker.end()
