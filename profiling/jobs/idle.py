"""When a worker may measure beside a service: while that does nothing."""

from __future__ import annotations

from collections.abc import Callable

from hetune.profiling.jobs.activity import Activity, ActivityCount

IDLE_SECONDS = 1.0
MOST_IDLE_SECONDS = 60.0


class InterferenceError(Exception):
    """The service began to compute while something was measured."""


class IdleGate:
    """A service's quiet: waits for it, and notices its end.

    Each time that it ends while something is measured, twice as long a quiet is waited for the
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
        self._since: ActivityCount | None = None

    def wait(self, stopped: Callable[[float], bool]) -> bool:
        """Waits until nothing was done for a while.

        Args:
            stopped: Waits so many seconds, or less; whether to stop.

        Returns:
            Whether it became quiet; else it was stopped.
        """
        while True:
            seen = self._activity.read()
            if seen == self._since:
                return True
            if stopped(self.seconds):
                return False
            if not seen.running and self._activity.read() == seen:
                self._since = seen
                return True

    def check(self) -> None:
        """To be called while something is measured, and after it.

        Raises:
            InterferenceError: The quiet that was waited for is over.
        """
        if self._activity.read() != self._since:
            raise InterferenceError

    def ended(self, *, disturbed: bool) -> None:
        """How measuring ended."""
        self.seconds = min(2 * self.seconds, self._most) if disturbed else self._least
