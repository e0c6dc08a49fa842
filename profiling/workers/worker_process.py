"""Keeps a worker of jobs at work beside a service."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from hetune.profiling.workers.activity import Activity
from hetune.profiling.workers.background_thread import BackgroundThread

_COMMAND = (sys.executable, "-m", "hetune.profiling.workers.worker_main")
_LOOK_SECONDS = 0.2
_END_SECONDS = 10.0
_STEADY_SECONDS = 60.0
_WORDS_SECONDS = 1.0
_log = logging.getLogger(__name__)


class WorkerProcess(BackgroundThread):
    """Starts the process, starts it again when it ends, and ends it in the end.

    A context manager. The first restart comes after a second, each further one after twice as
    long, up to a minute; a process that has lived for a minute starts that anew. What it writes to
    its standard error is logged, line by line.

    Args:
        activity: The service's; stays the caller's.
        store: Of the jobs, as `Store.open` takes it; by default HETUNE_STORE, or the user's.
        command: Starts a worker.
        pause: Seconds until the first restart.
        most: Seconds until any.

    Attributes:
        starts: How many processes were started.
    """

    def __init__(
        self,
        activity: Activity,
        store: str | Path | None = None,
        *,
        command: Sequence[str] = _COMMAND,
        pause: float = 1.0,
        most: float = 60.0,
    ) -> None:
        super().__init__("hetune-keeper")
        self.starts = 0
        self._activity = activity
        self._command = tuple(command)
        # Not an argument: everybody may read those, and a URL may hold a password.
        self._environment = {} if store is None else {"HETUNE_STORE": str(store)}
        self._pause, self._most = pause, most

    def _keep(self) -> None:
        pause = self._pause
        while not self._over.is_set():
            begun = time.monotonic()
            how = self._run()
            if self._over.is_set():
                return
            if time.monotonic() - begun > _STEADY_SECONDS:
                pause = self._pause
            _log.warning("the worker of jobs %s; it is started again in %g s", how, pause)
            if self._over.wait(pause):
                return
            pause = min(2 * pause, self._most)

    def _run(self) -> str:
        """A process's life; how it ended."""
        self.starts += 1
        try:
            process = subprocess.Popen(  # noqa: S603
                [*self._command, str(self._activity.descriptor)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                pass_fds=(self._activity.descriptor,),
                env=os.environ | self._environment,
                process_group=0,  # Ctrl-C is the service's, which ends this in order
            )
        except OSError as error:
            return f"cannot be started ({error})"
        assert process.stdin is not None
        with process.stdin:
            words = threading.Thread(target=_repeat, args=(process.stderr,), daemon=True)
            words.start()
            while process.poll() is None and not self._over.wait(_LOOK_SECONDS):
                pass
            if process.returncode is None:
                _end(process)
        words.join(_WORDS_SECONDS)
        return f"ended with status {process.returncode}"


def _repeat(words: IO[str]) -> None:
    """Until nobody can write any more: processes that it has started may outlive it."""
    with words:
        for line in words:
            _log.warning("the worker of jobs says: %s", line.rstrip())


def _end(process: subprocess.Popen[str]) -> None:
    """Lets it give back what it has, but not for ever."""
    process.terminate()
    try:
        process.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
