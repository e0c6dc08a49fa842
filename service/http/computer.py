"""What computes: one thing at a time."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


class Computer:
    """A thread that does one thing after the other. For one event loop.

    Kernels use all threads: what the loop does itself in its place has to be done while it is idle.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "hetune-compute")
        self._counting = threading.Lock()
        self._under_way = 0

    @property
    def is_idle(self) -> bool:
        """Whether nothing is done or waits: if so, nothing will be before the loop goes on."""
        return self._under_way == 0

    def submit(self, do: Callable[[], T]) -> Future[T]:
        """Does something after what waits already, in the context of who asks."""
        self._count(1)
        task = self._thread.submit(contextvars.copy_context().run, do)
        task.add_done_callback(lambda _: self._count(-1))
        return task

    def close(self) -> None:
        """What is under way goes on, and is not waited for; the rest is not begun."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _count(self, by: int) -> None:
        with self._counting:
            self._under_way += by
