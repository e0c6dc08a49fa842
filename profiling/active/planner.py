"""Which units to measure next.

Most variants of a problem are far from its best, and how far exactly changes no choice. A unit is
worth measuring if its variant may well be faster than the one that would be chosen now: by how much
it is expected to be, where it is faster, is its *expected improvement* (Jones, Schonlau and Welch,
"Efficient global optimization of expensive black-box functions", 1998).

And it is worth the less, the more of its launches are known. Variants of a problem have launches in
common, and on small graphs, where block sizes make the same blocks, variants are the same.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hetune.costmodel.features.devices import Rates
from hetune.costmodel.problems import Problem
from hetune.profiling.active.committee import Committee
from hetune.profiling.active.launch_sums import LaunchSums

_FIRST = 128
"""Units in the least batch, the first one above all: models know nothing before."""
_GROWTH = 0.25
"""A batch is this share of what has been measured: models that know more are asked more seldom."""
_ROOFLINE_DEVIATION = 0.3
"""Of the logarithm of the roofline model's times, which is asked before anything is measured."""
_LEAST_DEVIATION = 1e-3
"""Of what a committee expects: a measurement is no better."""


def batch(done: int, total: int) -> int:
    """How many units to choose at once where so many were measured, and `total` shall be."""
    return min(total - done, max(_FIRST, round(_GROWTH * done)))


@dataclass(frozen=True, slots=True)
class Planner:
    """Chooses among the units of some problems.

    Attributes:
        views: Variants of each problem, as sums of launches.
        machine: Rates for the roofline model.
        members: Of the committee; at least two.
        seed: Of everything that is drawn.
    """

    views: Sequence[LaunchSums]
    machine: Rates
    members: int = 4
    seed: int = 0

    def next(
        self,
        measured: Sequence[Problem],
        known: Sequence[NDArray[np.bool_]],
        left: Sequence[NDArray[np.bool_]],
        count: int,
    ) -> list[tuple[int, int]]:
        """The units to measure next.

        Args:
            measured: All problems that were measured so far, with the candidates that were;
                without any, the roofline model is asked.
            known: For each view the variants that were; bool [variants].
            left: Those that may be measured, likewise.
            count: How many units.

        Returns:
            Positions of a view and of a variant in it, each once; fewer than `count` if no more
            are left. The same for the same arguments.
        """
        so_far = sum(len(problem.candidates) for problem in measured)
        rng = np.random.default_rng([self.seed, so_far])
        if measured:
            committee = Committee.fit(measured, self.machine, self.members, rng)
        else:
            committee = Committee(({},), 0.0)
        worths = [improvements(seconds) for seconds in committee.predict(self.views)]
        return _draw(self.views, worths, known, left, count, rng)


def improvements(seconds: NDArray[np.float64]) -> NDArray[np.float64]:
    """By what factor each variant of a problem may be faster than the one that looks fastest.

    Args:
        seconds: What each member of a committee expects; float64 [members, variants]. One member
            is the roofline model.

    Returns:
        Expected improvements of the logarithm, under a normal distribution with the committee's
        mean and deviation; float64 [variants].
    """
    logs = np.log(seconds)
    mean, deviation = logs.mean(axis=0), np.full(logs.shape[1], _ROOFLINE_DEVIATION)
    if len(logs) > 1:
        deviation = np.maximum(logs.std(axis=0, ddof=1), _LEAST_DEVIATION)
    z = (mean.min() - mean) / deviation
    density = np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)
    below = np.array([0.5 * math.erfc(-each / math.sqrt(2)) for each in z])
    found: NDArray[np.float64] = np.maximum(deviation * (density + z * below), 0.0)
    return found


def _draw(
    views: Sequence[LaunchSums],
    worths: Sequence[NDArray[np.float64]],
    known: Sequence[NDArray[np.bool_]],
    left: Sequence[NDArray[np.bool_]],
    count: int,
    rng: np.random.Generator,
) -> list[tuple[int, int]]:
    """Draws units that are left, by their worth and without replacement (Gumbel's trick).

    A unit's worth is that of its variant times the share of its time, by the roofline model, that
    is spent in launches which are neither known nor drawn before. It only falls, so that a unit
    that is still the first when its worth is taken anew is the first of all.
    """
    fresh = [_fresh(view, done) for view, done in zip(views, known, strict=True)]
    luck = [rng.gumbel(size=view.variants) for view in views]

    def key(number: int, place: int) -> float:
        share = views[number].share(place, fresh[number])
        worth = max(worths[number][place] * share, np.finfo(np.float64).tiny)
        return -float(luck[number][place] + math.log(worth))

    heap = [
        (key(number, place), number, place)
        for number, free in enumerate(left)
        for place in np.flatnonzero(free).tolist()
    ]
    heapq.heapify(heap)
    found: list[tuple[int, int]] = []
    while heap and len(found) < count:
        _, number, place = heap[0]
        now = key(number, place), number, place
        if now > heap[0]:
            heapq.heapreplace(heap, now)
            continue
        heapq.heappop(heap)
        found.append((number, place))
        fresh[number][views[number].rows_of(place)] = False
    return found


def _fresh(view: LaunchSums, known: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which rows of a view no known variant has; bool [rows]."""
    found = np.ones(len(view.roofline), np.bool_)
    found[view.rows[known[view.owners]]] = False
    return found
