"""A database that is away: told once when it goes, and once when it is back."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from hetune.variants.errors import StoreError

T = TypeVar("T")
_log = logging.getLogger(__name__)


class Outage:
    """Notices when the database fails and answers again. Safe with several threads."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._failed = 0
        self._since = 0.0

    def watched(self, do: Callable[[], T]) -> T:
        """What a call gives that asks the database.

        Raises:
            StoreError: The call's own.
        """
        before = self._failed
        try:
            found = do()
        except StoreError as error:
            self.note(error)
            raise
        if before and before == self._failed:  # nothing has failed since it began
            self._end(before)
        return found

    def note(self, error: StoreError) -> None:
        """It has failed."""
        with self._mutex:
            self._failed += 1
            if self._failed > 1:
                return
            self._since = time.monotonic()
        _log.error("the database of jobs and measurements cannot be used: %s", error)

    def _end(self, failed: int) -> None:
        with self._mutex:
            if self._failed != failed:
                return
            self._failed = 0
        seconds = time.monotonic() - self._since
        text = "the database answers again, after %.0f s in which it failed %d times"
        _log.warning(text, seconds, failed)
