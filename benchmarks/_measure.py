"""What the benchmarks make of interleaved times (`hetune.profiling.measure`)."""

import ctypes
import math
import statistics
from collections.abc import Sequence
from typing import Any

from hetune.profiling.measure.timing import Timing

MIN_ROUNDS = 3


def as_json(timing: Timing) -> dict[str, Any]:
    """Times in milliseconds, with their median, minimum and interquartile range."""
    return {
        "times_ms": [round(t * 1e3, 4) for t in timing.seconds],
        "median_ms": round(timing.median * 1e3, 4),
        "min_ms": round(timing.minimum * 1e3, 4),
        "iqr_ms": round(timing.iqr * 1e3, 4),
    }


def rounds_within(seconds: float, rounds: int, budget: float) -> int:
    """How often a candidate of `seconds` a run takes part, so as to keep to `budget` seconds.

    Never below `MIN_ROUNDS`, so that a median means something.
    """
    affordable = rounds if seconds <= 0 else int(budget / seconds)
    return max(min(rounds, MIN_ROUNDS), min(rounds, affordable))


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
