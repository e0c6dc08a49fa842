"""Which units to measure next.

Most variants of a problem are far from its best, and how far exactly changes no choice. What does
is which one models take for the best: rightly, or because they have not seen that it is slow. So a
unit is drawn with the chance that its variant is the best, as far as models know (Thompson, "On the
likelihood that one unknown probability exceeds another in view of the evidence of two samples",
1933).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hetune.costmodel.data import Problem
from hetune.costmodel.features.devices import Rates
from hetune.profiling.active.committee import Committee
from hetune.profiling.active.view import View

_FIRST = 128
"""Units in the least batch, the first one above all: models know nothing before."""
_GROWTH = 0.25
"""A batch is this share of what has been measured: models that know more are asked more seldom."""
_ROOFLINE_DEVIATION = 0.3
"""Of the logarithm of the roofline model's times, which is asked before anything is measured."""
_LEAST_DEVIATION = 1e-3
"""Of what a committee expects: a measurement is no better."""
_DRAWS = 256
"""Of all times of a problem, to see how often each variant is the fastest."""


def batch(done: int, total: int) -> int:
    """How many units to choose at once where so many were measured, and `total` shall be."""
    return min(total - done, max(_FIRST, round(_GROWTH * done)))


@dataclass(frozen=True, slots=True)
class Planner:
    """Chooses among the units of some problems.

    Attributes:
        views: The problems.
        machine: Rates for the roofline model.
        members: Of the committee; at least two.
        seed: Of everything that is drawn.
    """

    views: Sequence[View]
    machine: Rates
    members: int = 8
    seed: int = 0

    def next(
        self, measured: Sequence[Problem], left: Sequence[NDArray[np.bool_]], count: int
    ) -> list[tuple[int, int]]:
        """The units to measure next.

        Args:
            measured: All problems that were measured so far, with the candidates that were;
                without any, the roofline model is asked.
            left: For each view the variants that may be measured; bool [variants].
            count: How many units.

        Returns:
            Positions of a view and of a variant in it, each once; fewer than `count` if no more
            are left. The same for the same arguments.
        """
        known = sum(len(problem.candidates) for problem in measured)
        rng = np.random.default_rng([self.seed, known])
        if measured:
            committee = Committee.fit(measured, self.machine, self.members, rng)
        else:
            committee = Committee(({},), 0.0)
        worths = [chances(seconds, rng) for seconds in committee.predict(self.views)]
        return _draw(worths, left, count, rng)


def chances(seconds: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """How likely each variant of a problem is the fastest.

    Args:
        seconds: What each member of a committee expects; float64 [members, variants]. One member
            is the roofline model.
        rng: Draws times.

    Returns:
        Shares of draws in which it is, if logarithms of times are drawn from normal distributions
        with the committee's mean and deviation; float64 [variants]. They add up to 1.
    """
    logs = np.log(seconds)
    variants = logs.shape[1]
    deviation = np.full(variants, _ROOFLINE_DEVIATION)
    if len(logs) > 1:
        deviation = np.maximum(logs.std(axis=0, ddof=1), _LEAST_DEVIATION)
    drawn = logs.mean(axis=0) + deviation * rng.standard_normal((_DRAWS, variants))
    return np.bincount(drawn.argmin(axis=1), minlength=variants) / _DRAWS


def _draw(
    worths: Sequence[NDArray[np.float64]],
    left: Sequence[NDArray[np.bool_]],
    count: int,
    rng: np.random.Generator,
) -> list[tuple[int, int]]:
    """Draws units that are left, by their worth and without replacement (Gumbel's trick).

    Those that are worth nothing come last, all alike.
    """
    if not worths:
        return []
    worth, free = np.concatenate(worths), np.concatenate(left)
    keys = np.log(np.maximum(worth, np.finfo(np.float64).tiny)) + rng.gumbel(size=len(worth))
    keys[~free] = -np.inf
    order = np.argsort(-keys, kind="stable")[: min(count, np.count_nonzero(free))]
    starts = np.cumsum([0, *(len(each) for each in worths)])
    views = np.searchsorted(starts, order, side="right") - 1
    return [(int(v), int(i - starts[v])) for v, i in zip(views, order, strict=True)]
