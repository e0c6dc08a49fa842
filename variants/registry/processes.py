"""Compilers are processes, and start processes of their own."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path


def run(
    command: Sequence[str],
    environment: Mapping[str, str],
    timeout_s: float,
    folder: Path | None = None,
) -> tuple[int, str]:
    """Run a command in its own process group; its exit status, and what it said.

    Args:
        command: the program and its arguments.
        environment: all of its variables.
        timeout_s: seconds after which it is killed.
        folder: where it runs; by default in the current one.

    Raises:
        OSError: it cannot be started.
        subprocess.TimeoutExpired: it was killed with all that it had started.
    """
    process = subprocess.Popen(  # noqa: S603  no shell; the caller names the program
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    with process:
        try:
            said, _ = process.communicate(timeout=timeout_s)
        except BaseException:
            # Its own children (cc1plus, ld, ptxas) must go too, or they would keep the pipe.
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return process.returncode, said.decode("utf-8", "replace")
