"""What can be said of times that were measured with noise."""

from __future__ import annotations

import hashlib
import math

import numpy as np
from numpy.typing import NDArray

from hetune.costmodel.problems import Problem

_MOST_SPREAD = 10.0
"""In logarithms: a time whose standard error is larger says nothing, however much larger it is."""
_IQR_IN_DEVIATIONS = 1.349
"""The interquartile range of the normal distribution."""


def margin(error: float, other: float) -> float:
    """The least difference of two times that is none of chance: two standard errors of it."""
    return 2 * math.hypot(error, other)


def floor(problem: Problem, draws: int = 200) -> float:
    """The regret that always knowing the fastest variant would show.

    The best of many times is partly the luckiest. Were all measured anew, another would often
    come first, and the variant that is fastest in truth would have a regret above 1. This draws new
    times around the measured ones, and returns the geometric mean of that regret. It errs to the
    low side, for noise has spread the measured times already.

    Args:
        problem: What was measured.
        draws: How often all times are drawn.
    """
    # Names of one run share its samples, and its luck.
    runs = dict.fromkeys((c.seconds, c.error) for c in problem.candidates)
    times, errors = np.array(tuple(runs)).T
    spread = np.minimum(errors / times, _MOST_SPREAD)
    anew = np.log(times) + spread * _normal(problem, "floor", (draws, times.size))
    return float(np.exp(np.mean(anew[:, times.argmin()] - anew.min(axis=1))))


def single_runs(problem: Problem) -> NDArray[np.float64]:
    """One noisy run of each candidate, in seconds; the same ones for the same problem."""
    times = np.array([c.seconds for c in problem.candidates])
    ranges = np.array([c.iqr for c in problem.candidates])
    spread = np.minimum(ranges / _IQR_IN_DEVIATIONS / times, _MOST_SPREAD)
    runs: NDArray[np.float64] = times * np.exp(spread * _normal(problem, "runs", times.shape))
    return runs


def _normal(problem: Problem, purpose: str, shape: tuple[int, ...]) -> NDArray[np.float64]:
    facts = (
        purpose, problem.graph, problem.program.digest,
        problem.threads, problem.machine,
    )  # fmt: skip
    seed = int.from_bytes(hashlib.sha256(repr(facts).encode()).digest()[:8])
    return np.random.default_rng(seed).standard_normal(shape)
