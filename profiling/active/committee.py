"""A few quick models, fitted to resampled problems: where they disagree, none of them knows.

This is query by bagging (Abe and Mamitsuka, "Query learning strategies using boosting and
bagging", 1998). Conformal intervals say how far a model is off on graphs of new families, on the
average; which measurement would tell it most, only a committee says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hetune.costmodel.data import Problem
from hetune.costmodel.features.launch import NAMES
from hetune.costmodel.model.regressor import LaunchRegressor, Target
from hetune.costmodel.model.rows import Rows
from hetune.profiling.active.view import View
from hetune.variants.runtime.roofline import MachineModel

_FEWEST_ROWS = 16
"""Of a kernel family, for a regressor of its own; the roofline model answers below."""

Member = Mapping[str, LaunchRegressor]


@dataclass(frozen=True, slots=True, eq=False)
class Committee:
    """Models of launches.

    Attributes:
        members: Regressors by kernel family; an empty member is the roofline model.
        launch_seconds: What starting a launch costs.
    """

    members: tuple[Member, ...]
    launch_seconds: float

    @classmethod
    def fit(
        cls,
        problems: Sequence[Problem],
        machine: MachineModel,
        *,
        members: int = 4,
        trees: int = 40,
        seed: int = 0,
        jobs: int = 0,
    ) -> Committee:
        """Fits each member to problems that are drawn with replacement; one alone, to all.

        Args:
            problems: What was measured; without any, the roofline model is all there is.
            machine: Rates for the roofline model, which regressors correct.
            members: How many.
            trees: Of each regressor.
            seed: Of what is drawn.
            jobs: Threads to fit with; 0 for all.
        """
        if not problems:
            return cls(({},), 0.0)
        rows = Rows.of(problems, machine)
        rng = np.random.default_rng(seed)
        found = []
        for number in range(members):
            weights = rows.weights
            if members > 1:
                weights = weights * _drawn(rows, rng)
            found.append(_member(rows, weights, trees, seed + number, jobs))
        return cls(tuple(found), rows.overhead.launch_seconds)

    def predict(self, views: Sequence[View]) -> list[NDArray[np.float64]]:
        """What each member expects: for each view seconds, float64 [members, variants]."""
        if not views:
            return []
        families = np.concatenate([view.families for view in views])
        X = np.concatenate([view.X for view in views])
        roofline = np.concatenate([view.roofline for view in views])
        ends = np.cumsum([len(view.roofline) for view in views])
        found: list[list[NDArray[np.float64]]] = [[] for _ in views]
        for member in self.members:
            seconds = roofline.copy()
            for family, regressor in member.items():
                places = np.flatnonzero(families == family)
                if places.size:
                    seconds[places] = regressor.predict(X[places], roofline=roofline[places])
            for view, part, own in zip(views, np.split(seconds, ends[:-1]), found, strict=True):
                own.append(view.totals(part, self.launch_seconds))
        return [np.array(own) for own in found]


def _drawn(rows: Rows, rng: np.random.Generator) -> NDArray[np.float64]:
    """How often each row counts if as many problems are drawn as there are, with replacement."""
    counts = np.bincount(rng.integers(len(rows.problems), size=len(rows.problems)))
    found = np.zeros(len(rows.seconds))
    for problem, count in zip(rows.problems, counts, strict=False):
        found[problem.rows] = count
    return found


def _member(
    rows: Rows, weights: NDArray[np.float64], trees: int, seed: int, jobs: int
) -> dict[str, LaunchRegressor]:
    found = {}
    for family in np.unique(rows.families):
        places = (rows.families == family) & (weights > 0)
        if np.count_nonzero(places) >= _FEWEST_ROWS:
            regressor = LaunchRegressor(
                NAMES, target=Target.RATIO, trees=trees, depth=5, seed=seed, jobs=jobs
            )
            found[str(family)] = regressor.fit(
                rows.X[places],
                rows.seconds[places],
                roofline=rows.roofline[places],
                weights=weights[places],
            )
    return found
