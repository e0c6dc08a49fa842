"""What may go wrong while a worker works: databases that are away, machines and processes."""

from __future__ import annotations

import errno
import logging
import time
from collections.abc import Callable
from typing import TypeVar

from hetune.variants.errors import HetuneError, StoreError, WorkerError

T = TypeVar("T")
RETRY_SECONDS = 3600.0
"""How long what was measured is kept for a database that is away."""
LONGEST_PAUSE_SECONDS = 60.0
_FIRST_SECONDS = 1.0
_SHORT = frozenset({errno.ENOSPC, errno.EDQUOT, errno.ENOMEM, errno.EMFILE, errno.ENFILE})
_log = logging.getLogger(__name__)


class ProcessLostError(Exception):
    """The process that worked on a task was lost: that may be the task's fault."""


class Retry:
    """Does something again and again while it fails because a database is away.

    The first pause is a second, each further one twice as long, up to a minute.

    Args:
        stopped: Waits so many seconds, or less; whether to stop (`threading.Event.wait`).
        seconds: How long it goes on.
    """

    def __init__(self, stopped: Callable[[float], bool], seconds: float = RETRY_SECONDS) -> None:
        self.stopped = stopped
        self._seconds = seconds

    def __call__(self, do: Callable[[], T], what: str) -> T:
        """What it gives in the end.

        Args:
            do: May be done more than once.
            what: For the log, e.g. "12 measurements are kept".

        Raises:
            StoreError: The last one, where it is over or does not pass.
        """
        pause, end = _FIRST_SECONDS, time.monotonic() + self._seconds
        while True:
            try:
                return do()
            except StoreError as error:
                if not error.may_pass or time.monotonic() > end:
                    raise
                _log.warning("%s: %s; tried again in %g s", what, error, pause)
                if self.stopped(pause):
                    raise
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)


def may_pass(error: BaseException) -> bool:
    """Whether a database that fails so may be there again without anybody's doing."""
    return isinstance(error, StoreError) and error.may_pass


def is_machine_fault(error: BaseException) -> bool:
    """Whether not the task but the machine is at fault: no disk, no process, no database."""
    if isinstance(error, HetuneError):
        causes = (error, error.__cause__)
        return isinstance(error, WorkerError) or any(isinstance(e, OSError) for e in causes)
    return isinstance(error, OSError) and error.errno in _SHORT


def message_of(error: Exception) -> str:
    """What an error says, for the log of a job."""
    return str(error) if isinstance(error, HetuneError) else f"{type(error).__name__}: {error}"
