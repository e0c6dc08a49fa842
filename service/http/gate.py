"""How many may be inside at a time."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

from prometheus_client import Gauge

from hetune.variants.errors import BusyError

_WINDOW = 0.1
"""Seconds over which those who come are counted."""
_CROWD = 0.25
"""The share of them that is refused where there is a crowd."""


class Gate:
    """Lets in so many at a time, and refuses the others at once. For one event loop.

    Args:
        what: Who comes in.
        most: How many at a time.
        length: Tells how many are inside, labelled by what they are.
        most_kept: Bytes of answers that are sent, until nobody else comes in.
        in_crowds: How many at a time while many are refused; as many as otherwise if None.
        clock: Seconds, for tests.
    """

    def __init__(
        self,
        what: str,
        most: int,
        length: Gauge,
        *,
        most_kept: float = math.inf,
        in_crowds: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._what, self._most = what, most
        self._kept, self._most_kept = 0, most_kept
        self._in_crowds = most if in_crowds is None else in_crowds
        self._crowd = _Crowd(clock)
        self._inside, self._length = 0, length.labels(what)
        self._left: asyncio.Future[None] | None = None

    @property
    def inside(self) -> int:
        """How many are."""
        return self._inside

    def check(self) -> None:
        """Refuses who could not come in now, before anything is received of what they send.

        Raises:
            BusyError: As many are inside as may be, or answers that are not read yet hold too much.
        """
        self._check(is_arrival=False)

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Inside while it lasts. Who sends something comes when that is there: places are few.

        Raises:
            BusyError: As `check` does.
        """
        self._check(is_arrival=True)
        self._inside += 1
        try:
            self._length.inc()
            yield
        finally:
            self._length.dec()
            self._inside -= 1
            if self._left is not None:
                self._left.set_result(None)
                self._left = None

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Inside while it lasts, and before that waits for a place.

        For who has sent everything, and was let in by `check` before.
        """
        while self._inside >= self._most:
            if self._left is None:
                self._left = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._left)
        with self.entered():
            yield

    @contextmanager
    def keeping(self, size: int) -> Iterator[None]:
        """While an answer of so many bytes is sent to somebody who was inside."""
        self._kept += size
        try:
            yield
        finally:
            self._kept -= size

    def _check(self, *, is_arrival: bool) -> None:
        most = self._in_crowds if self._crowd.is_there() else self._most
        refused = self._inside >= most
        if is_arrival or refused:
            self._crowd.record(refused)
        if refused:
            raise BusyError(f"{self._inside} {self._what} are under way: try again later")
        if self._kept > self._most_kept:
            raise BusyError(f"answers of {self._kept} bytes are being read: try again later")


class _Crowd:
    """Tells whether far more come than leave.

    A long queue makes all of them wait then, and serves nobody sooner. A few who are refused are no
    crowd: they may be back later, and would fit in.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock, self._begun = clock, clock()
        self._came = self._refused = 0
        self._was_there = False

    def is_there(self) -> bool:
        """Whether many of those who came in the last window were refused."""
        now = self._clock()
        if now >= self._begun + _WINDOW:
            many = self._refused > _CROWD * self._came
            self._was_there = many and now < self._begun + 2 * _WINDOW
            self._begun = now
            self._came = self._refused = 0
        return self._was_there

    def record(self, refused: bool) -> None:
        """Somebody came."""
        self._came += 1
        self._refused += refused
