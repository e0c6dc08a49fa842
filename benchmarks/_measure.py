"""Interleaved timing: every candidate once in each round, in an order drawn by a seed."""

import ctypes
import gc
import math
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MIN_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Sample:
    """Times of one candidate, in seconds, in the order in which they were taken."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """Median seconds."""
        return statistics.median(self.seconds)

    @property
    def minimum(self) -> float:
        """Least seconds."""
        return min(self.seconds)

    @property
    def iqr(self) -> float:
        """Seconds between the first and the third quartile; 0 for a single time."""
        if len(self.seconds) < 2:
            return 0.0
        low, _, high = statistics.quantiles(self.seconds, n=4, method="inclusive")
        return high - low

    def as_json(self) -> dict[str, Any]:
        """Times in milliseconds, with their median, minimum and interquartile range."""
        return {
            "times_ms": [round(t * 1e3, 4) for t in self.seconds],
            "median_ms": round(self.median * 1e3, 4),
            "min_ms": round(self.minimum * 1e3, 4),
            "iqr_ms": round(self.iqr * 1e3, 4),
        }


def rounds_within(seconds: float, rounds: int, budget: float) -> int:
    """How often a candidate of `seconds` a run takes part, so as to keep to `budget` seconds.

    Never below `MIN_ROUNDS`, so that a median means something.
    """
    affordable = rounds if seconds <= 0 else int(budget / seconds)
    return max(min(rounds, MIN_ROUNDS), min(rounds, affordable))


def schedule(rounds: Mapping[str, int], seed: int) -> list[list[str]]:
    """Order of runs: list of rounds, in each of which the names are shuffled.

    A candidate with fewer rounds than the others takes part in rounds spread over the whole, so
    that slow drift of the machine meets all candidates alike.
    """
    total = max(rounds.values(), default=0)
    generator = random.Random(seed)
    plan: list[list[str]] = [[] for _ in range(total)]
    for name, count in rounds.items():
        for i in range(count):
            plan[i * total // count].append(name)
    for members in plan:
        generator.shuffle(members)
    return plan


def interleave(
    runs: Mapping[str, Callable[[], object]],
    rounds: Mapping[str, int],
    *,
    seed: int = 0,
    progress: Callable[[str], None] = lambda name: None,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Sample]:
    """Time `runs` interleaved; each output is dropped before the next run begins.

    Args:
        runs: What to call, by name; warmed up already.
        rounds: How many times each name takes part.
        seed: Seed of the order.
        progress: Called with the name before each run, outside of the timed part.
        clock: Seconds.
    """
    times: dict[str, list[float]] = {name: [] for name in runs}
    enabled = gc.isenabled()
    gc.disable()
    try:
        for members in schedule({name: rounds[name] for name in runs}, seed):
            gc.collect()
            for name in members:
                progress(name)
                times[name].append(_timed(runs[name], clock))
    finally:
        if enabled:
            gc.enable()
    return {name: Sample(tuple(seconds)) for name, seconds in times.items()}


def _timed(run: Callable[[], object], clock: Callable[[], float]) -> float:
    start = clock()
    output = run()
    seconds = clock() - start
    del output
    return seconds


def geometric_mean(values: Sequence[float]) -> float:
    """Geometric mean; NaN of nothing."""
    if not values:
        return math.nan
    return math.exp(statistics.fmean(math.log(value) for value in values))


def keep_heap() -> None:
    """Make glibc keep freed memory, so that large temporaries cost no page faults.

    PyTorch's CPU allocator maps and unmaps every large tensor by default; a deployment that cares
    preloads another allocator. This is the same effect without one. Does nothing outside of glibc.
    """
    m_trim_threshold, m_mmap_max = -1, -4
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(m_mmap_max, 0)
        libc.mallopt(m_trim_threshold, -1)
