"""The yardstick: about a millisecond of work that never changes."""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Callable

import torch

from hetune.profiling.measure.stopwatch import Stopwatch, WallStopwatch

_TABLE_ROWS = 16384
_SHAPES = {"cpu": (4096, 64), "cuda": (16384, 1024)}
"""Rows that are picked and their width, by what picks them."""
_TURNS = 7
_USUAL = 64


class Reference:
    """Picks rows of a table and multiplies them, as layers do, with torch's own threads.

    A reading is the fastest of seven turns in a row, after one that is not timed: single turns
    vary by more than any drift worth noticing, the fastest of several does not, unless the machine
    was slower all the while. What is usual is the median of the last 64 readings with as many
    threads.

    Args:
        work: One turn; the product on the CPU by default.
        watch: Times a turn.
    """

    def __init__(
        self, work: Callable[[], object] | None = None, watch: Stopwatch | None = None
    ) -> None:
        self._work = work or product(torch.device("cpu"))
        self._watch = watch or WallStopwatch()
        self._readings: dict[int, deque[float]] = {}

    def read(self) -> float:
        """Seconds of the work, now, with the threads that torch has now."""
        self._work()
        turns = [self._watch.time(lambda mark: self._work()) for _ in range(_TURNS)]
        seconds = min(sample.seconds for _, sample in turns)
        self._known.append(seconds)
        return seconds

    def drift(self, before: float, after: float) -> float:
        """The largest of two readings and what is usual over the smallest, less 1."""
        readings = (before, after, statistics.median(self._known or (before,)))
        return max(readings) / min(readings) - 1

    @property
    def _known(self) -> deque[float]:
        return self._readings.setdefault(torch.get_num_threads(), deque(maxlen=_USUAL))


def product(device: torch.device) -> Callable[[], None]:
    """Picking rows and multiplying them, in float32, by torch on a device."""
    count, width = _SHAPES.get(device.type, _SHAPES["cuda"])
    draw = torch.Generator().manual_seed(0)
    with torch.inference_mode(False):
        table = torch.randn((_TABLE_ROWS, width), generator=draw).to(device)
        weight = torch.randn((width, width), generator=draw).to(device)
        picked = torch.randint(_TABLE_ROWS, (count,), generator=draw).to(device)
        rows, out = (torch.empty(count, width, device=device) for _ in range(2))

    def work() -> None:
        with torch.no_grad():
            torch.index_select(table, 0, picked, out=rows)
            torch.mm(rows, weight, out=out)

    return work
