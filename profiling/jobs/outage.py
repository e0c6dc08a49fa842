"""Times when a database was away: what ends in one is nobody's fault."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from hetune.profiling.jobs.database import Database
from hetune.profiling.jobs.records import State
from hetune.profiling.store.job_tables import tasks
from hetune.variants.errors import StoreError


class Outage:
    """Notices that a database was away, and then lets workers come back that could not say so.

    Args:
        length: How long leases are prolonged.
    """

    def __init__(self, length: timedelta) -> None:
        self._length = length
        self._last: datetime | None = None
        self._is_away = False

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Notes that the database fails in the block."""
        try:
            yield
        except StoreError as error:
            self._is_away = self._is_away or error.may_pass
            raise

    def heard(self, now: datetime) -> None:
        """Notes that the database answered at a time."""
        self._last = now

    def end(self, database: Database) -> None:
        """If the database was away: prolongs the leases that held when it was last heard of.

        Raises:
            StoreError: It is away still.
        """
        if not self._is_away:
            return
        with database.transaction(exclusive=True) as connection:
            until = database.now(connection) + self._length
            held = (
                tasks.c.state == State.RUNNING.value,
                tasks.c.lease_expires > self._last,
                tasks.c.lease_expires < until,
            )
            if self._last is not None:
                connection.execute(tasks.update().where(*held).values(lease_expires=until))
        self._is_away = False
