"""The yardstick: about a millisecond of work that never changes."""

from __future__ import annotations

import statistics
import time
from collections import deque
from collections.abc import Callable

import torch

_TABLE_ROWS = 16384
_ROWS = 4096
_WIDTH = 64
_TURNS = 7
_USUAL = 64


class Reference:
    """Picks rows of a table and multiplies them, as layers do, with torch's own threads.

    A reading is the fastest of seven turns in a row, after one that is not timed: single turns
    vary by more than any drift worth noticing, the fastest of several does not, unless the machine
    was slower all the while. What is usual is the median of the last 64 readings with as many
    threads.

    Args:
        work: One turn; the product by default.
        clock: Seconds.
    """

    def __init__(
        self,
        work: Callable[[], object] | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._work = work or _product()
        self._clock = clock
        self._readings: dict[int, deque[float]] = {}

    def read(self) -> float:
        """Seconds of the work, now, with the threads that torch has now."""
        self._work()
        seconds = min(self._turn() for _ in range(_TURNS))
        self._known.append(seconds)
        return seconds

    def drift(self, before: float, after: float) -> float:
        """The largest of two readings and what is usual over the smallest, less 1."""
        readings = (before, after, statistics.median(self._known or (before,)))
        return max(readings) / min(readings) - 1

    @property
    def _known(self) -> deque[float]:
        return self._readings.setdefault(torch.get_num_threads(), deque(maxlen=_USUAL))

    def _turn(self) -> float:
        start = self._clock()
        self._work()
        return self._clock() - start


def _product() -> Callable[[], None]:
    draw = torch.Generator().manual_seed(0)
    with torch.inference_mode(False):
        table = torch.randn((_TABLE_ROWS, _WIDTH), generator=draw)
        weight = torch.randn((_WIDTH, _WIDTH), generator=draw)
        picked = torch.randint(_TABLE_ROWS, (_ROWS,), generator=draw)
        rows, out = torch.empty(_ROWS, _WIDTH), torch.empty(_ROWS, _WIDTH)

    def work() -> None:
        with torch.no_grad():
            torch.index_select(table, 0, picked, out=rows)
            torch.mm(rows, weight, out=out)

    return work
