"""What can be said of medians that were measured with noise.

A sample keeps its median and interquartile range. Under normal noise the range is 1.349 standard
deviations, and a median of n times has a standard error of 1.2533 of them over the root of n; n is
taken as the fewest rounds that are measured.
"""

from __future__ import annotations

import hashlib
import math

import numpy as np
from numpy.typing import NDArray

from hetune.costmodel.data import Problem

ROUNDS = 7
"""The fewest rounds of a measurement: what standard errors are computed from."""
_IQR_IN_DEVIATIONS = 1.349
_MEDIAN_OVER_MEAN = 1.2533


def deviation(iqr: float) -> float:
    """Standard deviation of a single run, in the unit of `iqr`."""
    return iqr / _IQR_IN_DEVIATIONS


def standard_error(iqr: float) -> float:
    """Standard error of the median, in the unit of `iqr`."""
    return _MEDIAN_OVER_MEAN * deviation(iqr) / math.sqrt(ROUNDS)


def margin(iqr: float, other: float) -> float:
    """The least difference of two medians that is none of chance: two standard errors of it."""
    return 2 * math.hypot(standard_error(iqr), standard_error(other))


def floor(problem: Problem, draws: int = 200) -> float:
    """The regret that always knowing the fastest variant would show.

    The best of many medians is partly the luckiest. Were all measured anew, another would often
    come first, and the variant that is fastest in truth would have a regret above 1. This draws new
    medians around the measured ones, and returns the geometric mean of that regret. It errs to the
    low side, for noise has spread the measured medians already.

    Args:
        problem: What was measured.
        draws: How often all medians are drawn.
    """
    medians = np.array([c.seconds for c in problem.candidates])
    errors = np.array([standard_error(c.iqr) for c in problem.candidates])
    anew = medians * np.exp(errors / medians * _normal(problem, "floor", (draws, medians.size)))
    return float(np.exp(np.mean(np.log(anew[:, medians.argmin()] / anew.min(axis=1)))))


def single_runs(problem: Problem) -> NDArray[np.float64]:
    """One noisy run of each candidate, in seconds; the same ones for the same problem."""
    medians = np.array([c.seconds for c in problem.candidates])
    spread = np.array([deviation(c.iqr) for c in problem.candidates]) / medians
    runs: NDArray[np.float64] = medians * np.exp(spread * _normal(problem, "runs", medians.shape))
    return runs


def _normal(problem: Problem, purpose: str, shape: tuple[int, ...]) -> NDArray[np.float64]:
    facts = (
        purpose, problem.graph, problem.layer, problem.d_in, problem.d_out, problem.heads,
        problem.threads, problem.machine,
    )  # fmt: skip
    seed = int.from_bytes(hashlib.sha256(repr(facts).encode()).digest()[:8])
    return np.random.default_rng(seed).standard_normal(shape)
