"""What a run and its launches take: by a clock on a CPU, by CUDA events on a GPU."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor

Mark = Callable[[], object]
"""What a run calls before its first launch and after each."""

Result = TypeVar("Result")

_FLUSHED = 256 << 20
"""Bytes that are written between two runs: more than the L2 cache of any card."""


@dataclass(frozen=True, slots=True)
class TimedRun:
    """A run.

    Attributes:
        seconds: Until all that it started was done.
        launches: Between its marks.
        host_seconds: Until it returned.
    """

    seconds: float
    launches: tuple[float, ...] = ()
    host_seconds: float = 0.0


class Stopwatch(Protocol):
    """Times one run at a time."""

    def time(self, run: Callable[[Mark], Result]) -> tuple[Result, TimedRun]:
        """What a run gave, and what it took."""
        ...


@dataclass(frozen=True, slots=True)
class WallStopwatch:
    """A clock, for what is done when it returns.

    Attributes:
        clock: Seconds.
    """

    clock: Callable[[], float] = time.perf_counter

    def time(self, run: Callable[[Mark], Result]) -> tuple[Result, TimedRun]:
        """What a run gave, and what it took."""
        clock = self.clock
        marks: list[float] = []
        start = clock()
        result = run(lambda: marks.append(clock()))
        seconds = clock() - start
        launches = tuple(after - before for before, after in pairwise(marks))
        return result, TimedRun(seconds, launches, seconds)


@functools.cache
def _scratch() -> Tensor:
    return torch.empty(_FLUSHED, dtype=torch.int8, device="cuda")


@dataclass(frozen=True, slots=True)
class CudaStopwatch:
    """Events on the current stream, around a run that finds the device idle and its cache cold.

    Starting kernels thus counts where the device waits for it, as it does for whoever waits for
    one result. Marks are events, too: nothing is waited for before the run's end.

    Attributes:
        event: Makes an event that keeps its time.
        wait: Until the device has done everything.
        flush: Overwrites the L2 cache.
    """

    event: Callable[[], Any] = lambda: torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    wait: Callable[[], object] = lambda: torch.cuda.synchronize()
    flush: Callable[[], object] = lambda: _scratch().zero_()

    def time(self, run: Callable[[Mark], Result]) -> tuple[Result, TimedRun]:
        """What a run gave, and what it took."""
        self.flush()
        self.wait()
        marks: list[Any] = []

        def mark() -> None:
            marks.append(self.event())
            marks[-1].record()

        begin, end = self.event(), self.event()
        begin.record()
        start = time.perf_counter()
        result = run(mark)
        host = time.perf_counter() - start
        end.record()
        end.synchronize()
        launches = tuple(_seconds(before, after) for before, after in pairwise(marks))
        return result, TimedRun(_seconds(begin, end), launches, host)


def _seconds(before: Any, after: Any) -> float:
    return float(before.elapsed_time(after)) * 1e-3
