"""A few models, fitted to resampled problems: where they disagree, none of them knows.

This is query by bagging (Abe and Mamitsuka, "Query learning strategies using boosting and
bagging", 1998). Conformal intervals say how far a model is off on graphs of new families, on the
average; which measurement would tell it most, only a committee says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hetune.costmodel.features.devices import Rates, names_of
from hetune.costmodel.model.regressor import LaunchRegressor, Target
from hetune.costmodel.model.training_rows import TrainingRows
from hetune.costmodel.problems import Problem
from hetune.profiling.active.launch_sums import LaunchSums

_TREES, _LEARNING_RATE = 60, 0.15
"""Fewer trees than cost models have, that learn faster: members are fitted many times."""
_FEWEST_ROWS = 16
"""Of a kernel family, for a regressor of its own."""


@dataclass(frozen=True, slots=True, eq=False)
class Committee:
    """Models of launches.

    Attributes:
        members: Regressors by kernel family; where one is missing, the roofline model answers.
        launch_seconds: What starting a launch costs.
    """

    members: tuple[Mapping[str, LaunchRegressor], ...]
    launch_seconds: float

    @classmethod
    def fit(
        cls,
        problems: Sequence[Problem],
        machine: Rates,
        members: int,
        rng: np.random.Generator,
    ) -> Committee:
        """Fits each member to as many problems as there are, drawn with replacement.

        Args:
            problems: What was measured; at least one.
            machine: Rates for the roofline model, which regressors correct.
            members: How many.
            rng: Draws the problems.

        Raises:
            ModelError: There is no problem, or they are of several machines.
        """
        rows = TrainingRows.of(problems, machine)
        found = tuple(_member(rows, rows.weights * _drawn(rows, rng)) for _ in range(members))
        return cls(found, rows.overhead.launch_seconds)

    def predict(self, views: Sequence[LaunchSums]) -> list[NDArray[np.float64]]:
        """What each member expects: for each view seconds, float64 [members, variants]."""
        if not views:
            return []
        families = np.concatenate([view.families for view in views])
        X = np.concatenate([view.X for view in views])
        roofline = np.concatenate([view.roofline for view in views])
        ends = np.cumsum([len(view.roofline) for view in views])[:-1]
        by_member = []
        for member in self.members:
            seconds = roofline.copy()
            for family, regressor in member.items():
                places = np.flatnonzero(families == family)
                if places.size:
                    seconds[places] = regressor.predict(X[places], roofline=roofline[places])
            by_member.append(np.split(seconds, ends))
        return [
            np.array([view.totals(own, self.launch_seconds) for own in parts])
            for view, *parts in zip(views, *by_member, strict=True)
        ]


def _drawn(rows: TrainingRows, rng: np.random.Generator) -> NDArray[np.float64]:
    """How often the problem of each row is drawn; float64 [rows]."""
    problems = len(rows.problems)
    counts = np.bincount(rng.integers(problems, size=problems), minlength=problems)
    found = np.zeros(len(rows.seconds))
    for problem, count in zip(rows.problems, counts, strict=True):
        found[problem.rows] = count
    return found


def _member(rows: TrainingRows, weights: NDArray[np.float64]) -> dict[str, LaunchRegressor]:
    found = {}
    for family in np.unique(rows.families):
        places = (rows.families == family) & (weights > 0)
        if np.count_nonzero(places) >= _FEWEST_ROWS:
            regressor = LaunchRegressor(
                names_of(rows.device),
                target=Target.RATIO,
                trees=_TREES,
                learning_rate=_LEARNING_RATE,
            )
            found[str(family)] = regressor.fit(
                rows.X[places],
                rows.seconds[places],
                roofline=rows.roofline[places],
                weights=weights[places],
            )
    return found
