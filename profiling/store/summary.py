"""What is made of the samples of a time: one number, and how sure it is."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

TIME = 0.25
"""The quantile of its samples that counts as the time of a variant or of a launch.

Other work on the machine only ever adds to a time, and seldom to all rounds of a candidate: the
lower quartile of few rounds repeats better than their median, and still is no single lucky run.
"""


def quantile(samples: Sequence[float], share: float) -> float:
    """Linear between samples, as NumPy's, which takes fifty times as long for so few."""
    ordered = sorted(samples)
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def standard_error(samples: Sequence[float], share: float) -> float:
    """How far a quantile of as many new samples would lie from this one.

    The exact bootstrap of the nearest order statistic (Maritz and Jarrett, "A note on estimating
    the variance of the sample median", 1978). A single sample says nothing: 0.
    """
    ordered = np.array(sorted(samples))
    weights = _weights(len(ordered), 1 + round(share * (len(ordered) - 1)))
    mean = float(weights @ ordered)
    return math.sqrt(float(weights @ (ordered - mean) ** 2))


@functools.lru_cache(maxsize=1024)
def _weights(count: int, rank: int) -> NDArray[np.float64]:
    """How likely each of `count` samples comes in at `rank` when as many are drawn from them."""
    from scipy.special import betainc  # seldom needed

    steps = betainc(rank, count - rank + 1, np.arange(count + 1) / count)
    found: NDArray[np.float64] = np.diff(steps)
    return found
