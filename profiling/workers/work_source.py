"""Where a worker gets its tasks, a database or a service that has one; and what may be away."""

from __future__ import annotations

import errno
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar

from hetune.costmodel.fingerprint import Fingerprint
from hetune.profiling.jobs.records import Lease
from hetune.profiling.records import Measurement
from hetune.profiling.store.store import AddedCounts
from hetune.variants.errors import (
    BusyError,
    HetuneError,
    StoreError,
    UnreachableError,
    WorkerError,
)
from hetune.variants.kernel.device import Device

T = TypeVar("T")
UNAVAILABLE = (StoreError, UnreachableError, BusyError)
"""Errors of a source that may be there again later; until then its leases may run out."""
RETRY_SECONDS = 3600.0
"""How long what was measured is kept for a source that is away."""
LONGEST_PAUSE_SECONDS = 60.0
_FIRST_SECONDS = 1.0
_SHORT = frozenset({errno.ENOSPC, errno.EDQUOT, errno.ENOMEM, errno.EMFILE, errno.ENFILE})
_log = logging.getLogger(__name__)


class WorkSource(Protocol):
    """Leases units of jobs, and takes their results.

    `hetune.profiling.jobs.leases.Leases` explains each method. All of them also raise an error of
    `UNAVAILABLE` where the source cannot be asked; then nothing was written, or it was and no
    answer came.
    """

    def claim(
        self, owner: str, machine: str, *, devices: Sequence[Device] = ("cpu",)
    ) -> Lease | None:
        """Takes a unit; None if there is nothing to do now."""
        ...

    def heartbeat(self, lease: Lease) -> bool:
        """Prolongs a lease; whether the work is still wanted."""
        ...

    def complete(
        self, lease: Lease, measurements: Iterable[Measurement], fingerprint: Fingerprint
    ) -> AddedCounts:
        """Stores what was measured, and that the unit is done: both or neither."""
        ...

    def complete_training(self, lease: Lease, model: str) -> None:
        """Says that a cost model was trained."""
        ...

    def fail(self, lease: Lease, error: str, *, final: bool = False) -> None:
        """Gives a unit back that could not be done."""
        ...

    def release(self, lease: Lease, why: str = "") -> None:
        """Gives a unit back that was not done."""
        ...


class ProcessLostError(Exception):
    """The process that worked on a unit was lost: that may be the unit's fault."""


class Retry:
    """Does something again and again while it fails because a database or a service is away.

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
            StoreError, UnreachableError, BusyError: The last one, where it is over or does not
                pass.
        """
        pause, end = _FIRST_SECONDS, time.monotonic() + self._seconds
        while True:
            try:
                return do()
            except UNAVAILABLE as error:
                if not may_pass(error) or time.monotonic() > end:
                    raise
                _log.warning("%s: %s; tried again in %g s", what, error, pause)
                if self.stopped(pause):
                    raise
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)


def may_pass(error: BaseException) -> bool:
    """Whether a source, or a store, that fails so may be there again without anybody's doing."""
    return isinstance(error, UNAVAILABLE) and not (
        isinstance(error, StoreError) and not error.may_pass
    )


def is_machine_fault(error: BaseException) -> bool:
    """Whether not the unit but the machine is at fault: no disk, no process, no database."""
    if isinstance(error, HetuneError):
        causes = (error, error.__cause__)
        return isinstance(error, WorkerError) or any(isinstance(e, OSError) for e in causes)
    return isinstance(error, OSError) and error.errno in _SHORT


def message_of(error: Exception) -> str:
    """What an error says, for the log of a job."""
    return str(error) if isinstance(error, HetuneError) else f"{type(error).__name__}: {error}"
