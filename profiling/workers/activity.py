"""Whether a service is idle: only then its worker measures."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

IDLE_SECONDS = 1.0
MOST_IDLE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class ActivityCount:
    """What can be seen of a service.

    Attributes:
        changes: How often something began or ended, since the service was started.
        running: How much is being done.
    """

    changes: int
    running: int


class Activity:
    """Says that something is being done. Safe with several threads."""

    def __init__(self) -> None:
        self._changing = threading.Lock()
        self._count = ActivityCount(0, 0)

    @contextmanager
    def marked(self) -> Iterator[None]:
        """Something is being done while it lasts."""
        self._change(1)
        try:
            yield
        finally:
            self._change(-1)

    def read(self) -> ActivityCount:
        """What can be seen now: equal, with nothing running, if nothing was done in between."""
        return self._count

    def _change(self, by: int) -> None:
        with self._changing:
            before = self._count
            self._count = ActivityCount(before.changes + 1, before.running + by)


class InterferenceError(Exception):
    """The service began to compute while something was measured."""


class IdleGate:
    """Lets a worker measure while a service is idle.

    Each time that the service begins to compute meanwhile, it has to be idle for twice as long the
    next time, up to a limit: a service that is never idle is not disturbed all the time.

    Args:
        activity: The service's.
        seconds: How long nothing must have been done.
        most: The longest that is waited for.
    """

    def __init__(
        self,
        activity: Activity,
        seconds: float = IDLE_SECONDS,
        most: float = MOST_IDLE_SECONDS,
    ) -> None:
        self._activity = activity
        self._least, self._most = seconds, most
        self.seconds = seconds
        self._idle_count: ActivityCount | None = None

    def wait(self, stopped: Callable[[float], bool]) -> bool:
        """Waits until nothing was done for a while.

        Args:
            stopped: Waits so many seconds, or less; whether to stop.

        Returns:
            Whether the service became idle; else it was stopped.
        """
        while True:
            seen = self._activity.read()
            if seen == self._idle_count:
                return True
            if stopped(self.seconds):
                return False
            if not seen.running and self._activity.read() == seen:
                self._idle_count = seen
                return True

    def check(self) -> None:
        """To be called while something is measured.

        Raises:
            InterferenceError: The service is not idle any more.
        """
        if self._activity.read() != self._idle_count:
            raise InterferenceError

    @contextmanager
    def measuring(self) -> Iterator[None]:
        """Something is measured while it lasts.

        Raises:
            InterferenceError: The service was not idle all the while.
        """
        try:
            yield
            self.check()
        except InterferenceError:
            self.seconds = min(2 * self.seconds, self._most)
            raise
        self.seconds = self._least
