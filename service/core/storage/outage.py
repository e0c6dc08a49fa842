"""What cannot be used for a while: told once when it begins, and once when it is over."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from hetune.variants.errors import HetuneError

T = TypeVar("T")
_QUIET_SECONDS = 60.0
_log = logging.getLogger(__name__)


class OutageLog:
    """Notices when something fails and works again. Safe with several threads.

    Args:
        kind: The error that it fails with.
        begun: The log's line when it first fails, which the error follows.
        over: That when it works again, which how long and how often it failed follows.
    """

    def __init__(self, kind: type[HetuneError], begun: str, over: str) -> None:
        self._kind, self._begun, self._over = kind, begun, over
        self._mutex = threading.Lock()
        self._failed = 0
        self._since = 0.0

    def watched(self, do: Callable[[], T]) -> T:
        """What a call gives that needs it.

        Raises:
            HetuneError: The call's own.
        """
        try:
            return self.ended_by(do)
        except self._kind as error:
            self.record(error)
            raise

    def ended_by(self, do: Callable[[], T]) -> T:
        """As `watched`, of a call whose failures are noted elsewhere."""
        before = self._failed
        found = do()
        if before and before == self._failed:  # nothing has failed since it began
            self._end(before)
        return found

    def record(self, error: HetuneError) -> None:
        """It has failed."""
        with self._mutex:
            self._failed += 1
            if self._failed > 1:
                return
            self._since = time.monotonic()
        _log.error("%s: %s", self._begun, error)

    def _end(self, failed: int) -> None:
        with self._mutex:
            if self._failed != failed:
                return
            self._failed = 0
        seconds = time.monotonic() - self._since
        text = "%s, after %.0f s in which it failed %d times"
        _log.warning(text, self._over, seconds, failed)


class RecentErrors:
    """Tells an error that is new from one that goes on. Safe with several threads.

    Where nothing says that it is over, it is when it has not occurred for a minute.
    """

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._last: dict[str, float] = {}

    def has_begun(self, error: str) -> bool:
        """Whether an error of this text, which has just occurred, is new."""
        now = time.monotonic()
        with self._mutex:
            self._last = {e: at for e, at in self._last.items() if now - at < _QUIET_SECONDS}
            is_new = error not in self._last
            self._last[error] = now
        return is_new
