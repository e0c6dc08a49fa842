"""What is made of the times of one candidate."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of each run of one candidate, in the order in which they were taken."""

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
        """Seconds between the first and the third quartile; 0 for a single run."""
        return interquartile_range(self.seconds)


def interquartile_range(values: Sequence[float]) -> float:
    """Third minus first quartile; 0 for a single value."""
    if len(values) < 2:
        return 0.0
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return high - low
