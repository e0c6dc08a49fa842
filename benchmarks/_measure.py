"""What the benchmarks make of interleaved times (`hetune.profiling.measure`)."""

import math
import statistics
import time
from collections.abc import Callable, Sequence
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


def seconds_of(run: Callable[[], object]) -> float:
    """What one call takes; its result is dropped afterwards."""
    start = time.perf_counter()
    result = run()
    seconds = time.perf_counter() - start
    del result
    return seconds
