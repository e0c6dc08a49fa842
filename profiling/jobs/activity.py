"""Whether a service computes, for the worker on its machine, in memory that both see."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self

from hetune.profiling.process.heartbeat import Heartbeat


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
    """Says that something is being done. Telling costs nothing, and wakes nobody up.

    Args:
        heartbeat: The memory.
    """

    def __init__(self, heartbeat: Heartbeat) -> None:
        self._heartbeat = heartbeat
        self._changing = threading.Lock()
        self._running = 0

    @classmethod
    def create(cls) -> Self:
        """One of its own, where nothing is being done.

        Raises:
            WorkerError: There is no room for it.
        """
        created = cls(Heartbeat.create())
        created._heartbeat.beat(0)
        return created

    @classmethod
    def inherited(cls, descriptor: int) -> Self:
        """That of a parent, by its `descriptor`."""
        return cls(Heartbeat(descriptor))

    @property
    def descriptor(self) -> int:
        """For a child, which has to inherit it."""
        return self._heartbeat.descriptor

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
        return ActivityCount(*self._heartbeat.read())

    def close(self) -> None:
        """Lets the memory go."""
        self._heartbeat.close()

    def _change(self, by: int) -> None:
        with self._changing:
            self._running += by
            self._heartbeat.beat(self._running)
