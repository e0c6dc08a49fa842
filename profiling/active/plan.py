"""Which units to measure next.

Most variants of a problem are far from its best, and how far exactly changes no choice. What does
is which of the near ones is best; and a variant may be near as long as some model believes so. Each
unit's worth is the share of a committee that believes it near the best of its problem, and all
problems are worth the same, so that a batch is spread over many graphs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from hetune.costmodel.data import Problem
from hetune.profiling.active.committee import Committee
from hetune.profiling.active.view import View
from hetune.variants.runtime.roofline import MachineModel

_NEAR = 0.05
"""Predicted log-distance from the best at which a variant's worth has fallen to 1/e."""
_NEAR_UNTRAINED = 0.2
"""The same before anything is measured."""


@dataclass(frozen=True, slots=True)
class Planner:
    """Chooses among the units of some problems.

    Attributes:
        views: The problems.
        machine: Rates for the roofline model.
        members: Of the committee.
        seed: Of everything that is drawn.
        jobs: Threads to fit with; 0 for all.
    """

    views: Sequence[View]
    machine: MachineModel = field(default_factory=MachineModel)
    members: int = 4
    seed: int = 0
    jobs: int = 0

    def next(
        self, measured: Sequence[Problem], left: Sequence[NDArray[np.bool_]], count: int
    ) -> list[tuple[int, int]]:
        """The units to measure next.

        Args:
            measured: All problems that were measured so far, with the candidates that were.
            left: For each view the variants that may be measured; bool [variants].
            count: How many units.

        Returns:
            Positions of a view and of a variant in it, the most valuable first; fewer than `count`
            if no more are left. The same for the same arguments.
        """
        done = sum(len(problem.candidates) for problem in measured)
        rng = np.random.default_rng([self.seed, done])
        committee = Committee.fit(
            measured,
            self.machine,
            members=self.members,
            seed=int(rng.integers(1 << 30)),
            jobs=self.jobs,
        )
        near = _NEAR if measured else _NEAR_UNTRAINED
        worths = [
            worth(seconds, free, near)
            for seconds, free in zip(committee.predict(self.views), left, strict=True)
        ]
        return draw(worths, count, rng)


def worth(
    seconds: NDArray[np.float64], left: NDArray[np.bool_], near: float = _NEAR
) -> NDArray[np.float64]:
    """How much measuring each variant of a problem should tell; sums to 1 if any is left.

    Args:
        seconds: What each member of a committee expects; float64 [members, variants].
        left: The variants that may be measured; bool [variants].
        near: Log-distance from a member's best at which a variant counts 1/e.
    """
    logs = np.log(seconds)
    nearness = np.exp((logs.min(axis=1, keepdims=True) - logs) / near).mean(axis=0)
    found: NDArray[np.float64] = np.where(left, nearness, 0.0)
    if not found.any():
        found = left.astype(np.float64)
    return found / max(float(found.sum()), np.finfo(np.float64).tiny)


def draw(
    worths: Sequence[NDArray[np.float64]], count: int, rng: np.random.Generator
) -> list[tuple[int, int]]:
    """Draws units without replacement, by their worth (Gumbel's trick); those of no worth never."""
    if not worths:
        return []
    flat = np.concatenate(worths)
    views = np.repeat(np.arange(len(worths)), [len(each) for each in worths])
    places = np.concatenate([np.arange(len(each)) for each in worths])
    with np.errstate(divide="ignore"):
        keys = np.log(flat) + rng.gumbel(size=len(flat))
    order = np.argsort(-keys, kind="stable")[: min(count, np.count_nonzero(flat))]
    return [(int(views[i]), int(places[i])) for i in order]
