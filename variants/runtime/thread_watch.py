"""Short runs that wait for threads: noticed by their times, and run with one thread instead.

Threads of a launch wait for each other. Where other programs keep the processors busy, the system
may hold one of them back for a slice of its time, milliseconds, while the launch itself takes a
tenth of one. One thread then is faster than several. Results have the same bits either way.
"""

from __future__ import annotations

import logging
import statistics
import threading
from collections import deque
from dataclasses import dataclass, field

HELD_UP = "several are held up, for other programs use the processors"
"""Why, for a reader."""
SHORT_SECONDS = 5e-3
"""Runs that should take longer are not watched: what they can lose is little beside them."""
RUNS = 3
"""Runs in a row that tell something."""
REST, MOST_REST = 256, 8192
"""Runs until the other number of threads is tried again: first, and after doubling."""
_FACTOR, _LOST = 8.0, 1e-3
"""A run is held up if it takes so many times what it should, and so many seconds more."""
_GAIN = 1.2
_log = logging.getLogger(__name__)
_warned = threading.Event()


@dataclass(slots=True)
class ThreadWatch:
    """One variant's runs on one graph. Safe with several threads.

    Args:
        what: The variant and the graph, for a reader.
        all_threads: How many threads runs have as a rule, at least 2.
        expected: Seconds that a run should take with them.
    """

    what: str
    all_threads: int
    expected: float
    _uses_one: bool = False
    _tries: bool = False
    _left: int = 0
    _rest: int = REST
    _is_said: bool = False
    _many: deque[float] = field(default_factory=lambda: deque(maxlen=RUNS))
    _one: deque[float] = field(default_factory=lambda: deque(maxlen=RUNS))
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    @property
    def threads(self) -> int:
        """How many the next run is to have."""
        return 1 if self._uses_one else self.all_threads

    def record(self, threads: int, seconds: float) -> None:
        """What a run took.

        Args:
            threads: That it had.
            seconds: From its first launch to the end of its last one.
        """
        with self._lock:
            if threads != self.threads:  # told late, by another thread
                return
            times = self._one if self._uses_one else self._many
            times.append(seconds)
            self._left -= 1
            if self._tries:
                self._judge(seconds)
            elif self._left <= 0 and (self._uses_one or self._is_held_up()):
                self._try_other()

    def _is_held_up(self) -> bool:
        return len(self._many) == RUNS and all(map(self._is_late, self._many))

    def _is_late(self, seconds: float) -> bool:
        return seconds > _FACTOR * self.expected and seconds - self.expected > _LOST

    def _try_other(self) -> None:
        self._uses_one = not self._uses_one
        self._tries, self._left = True, RUNS
        (self._one if self._uses_one else self._many).clear()

    def _judge(self, last: float) -> None:
        """After a run of the number of threads that is tried."""
        if not self._uses_one and self._is_late(last):
            self._keep(one=True)
        elif self._left <= 0:
            many, one = map(statistics.median, (self._many, self._one))
            self._keep(one=one * _GAIN < many)

    def _keep(self, one: bool) -> None:
        is_news = one == self._uses_one
        self._uses_one, self._tries = one, False
        if is_news and not one:  # what held them up is gone
            self._left, self._rest = 0, REST
            return
        self._left, self._rest = self._rest, min(2 * self._rest, MOST_REST)
        if is_news and not self._is_said:
            self._is_said = True
            self._say()

    def _say(self) -> None:
        """Once for these runs, and as a warning once in a process."""
        many, one = (1e3 * statistics.median(times) for times in (self._many, self._one))
        level = logging.INFO if _warned.is_set() else logging.WARNING
        _warned.set()
        _log.log(
            level,
            "%s took %.2f ms with %d threads, where %.2f are expected, and %.2f with one: other "
            "programs use the processors, so it has one thread for now; with "
            "torch.set_num_threads(1), or HETUNE_THREADS=1 for a service, all have",
            self.what,
            many,
            self.all_threads,
            1e3 * self.expected,
            one,
        )
