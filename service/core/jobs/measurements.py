"""The store of measurements and its queue of jobs, as the service has them."""

from __future__ import annotations

import threading
from pathlib import Path

from hetune.profiling.jobs.queue import JobQueue
from hetune.profiling.store.connect import check_place
from hetune.profiling.store.store import Store
from hetune.service.core.storage.outage import OutageLog
from hetune.variants.errors import StoreError

_CLOSE_SECONDS = 1.0


class Measurements:
    """Opened when they are first asked for: a database that is away keeps nobody from running.

    Args:
        url: As `Store.open` takes it; by default HETUNE_STORE, or a file of the user's.

    Attributes:
        outage: Who asks them tells it when they fail.
    """

    def __init__(self, url: str | Path | None = None) -> None:
        self._url = url
        self.outage = OutageLog(
            StoreError,
            "the database of jobs and measurements cannot be used",
            "the database answers again",
        )
        self._opening = threading.Lock()
        self._opened: tuple[Store, JobQueue] | None = None

    @property
    def store(self) -> Store:
        """The measurements, with tables of jobs.

        Raises:
            StoreError: The database cannot be used, or its tables are of another version.
        """
        return self._open()[0]

    @property
    def queue(self) -> JobQueue:
        """The jobs.

        Raises:
            StoreError: As for `store`.
        """
        return self._open()[1]

    def check(self) -> None:
        """Checks that the store, if it is open, is where it was; a server is not asked.

        Raises:
            StoreError: Its file was deleted or replaced.
        """
        check_place(self._url)

    def close(self) -> None:
        """Gives the connections back; who asks again opens new ones.

        Where they cannot be opened for so long that this is over before, they are left.
        """
        if not self._opening.acquire(timeout=_CLOSE_SECONDS):
            return
        try:
            if self._opened is not None:
                self._opened[0].close()
            self._opened = None
        finally:
            self._opening.release()

    def _open(self) -> tuple[Store, JobQueue]:
        with self._opening:
            if self._opened is None:
                store = Store.open(self._url)
                try:
                    self._opened = store, JobQueue(store)
                except BaseException:
                    store.close()
                    raise
            return self._opened
