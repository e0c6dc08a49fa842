"""Predicts a launch's seconds from its features."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from enum import StrEnum
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hetune.costmodel.model.estimator import Estimator, table_of, vector_of
from hetune.variants.errors import ModelError


class Target(StrEnum):
    """What a regressor's trees add up to; either way the error is one of logarithms."""

    SECONDS = "log-seconds"
    RATIO = "roofline-ratio"


@dataclass(eq=False)
class LaunchRegressor(Estimator):
    """Seconds of launches of one kernel family.

    Args:
        features: Names of the columns of X.
        target: What the trees predict: the logarithm of seconds, or that of their ratio to the
            roofline model's.
        increasing: Those with which seconds cannot fall. Only applies to "log-seconds": a ratio
            to the roofline may well fall as work grows.
        trees: How many, to the next multiple of `forest`.
        forest: How many are grown at once, on rows and features of their own, and averaged.
        depth: Of each.
        learning_rate: Share of each tree's answer that is taken.
        subsample: Share of rows that each tree sees.
        colsample: Share of features that each tree sees.
        min_child_weight: Least weight of rows in a leaf; a row's is 1 on the average.
        seed: Of the choice of rows and features.
        jobs: Threads to fit with, which does not change the result; 0: all, if that is worth it.
    """

    features: tuple[str, ...]
    _: KW_ONLY
    target: Target | str = Target.SECONDS
    increasing: frozenset[str] = frozenset()
    trees: int = 600
    forest: int = 2
    depth: int = 6
    learning_rate: float = 0.08
    subsample: float = 0.6
    colsample: float = 0.4
    min_child_weight: float = 3.0
    seed: int = 0
    jobs: int = 0

    def fit(
        self, X: ArrayLike, y: ArrayLike, *, roofline: ArrayLike, weights: ArrayLike | None = None
    ) -> Self:
        """Fits the trees.

        Args:
            X: Features [rows, features].
            y: Measured seconds [rows].
            roofline: The roofline model's seconds [rows].
            weights: How much each row counts [rows]; alike by default.

        Raises:
            ModelError: There are no rows, or values that are not finite, or times that are not
                positive.
        """
        table, seconds, bound = table_of(X), vector_of(y), vector_of(roofline)
        _check(table, seconds, bound)
        label = np.log(seconds)
        if self.target == Target.RATIO:
            label -= np.log(bound)
        options: dict[str, Any] = {}
        if self.target == Target.SECONDS and self.increasing:
            signs = ["1" if name in self.increasing else "0" for name in self.features]
            options["monotone_constraints"] = f"({','.join(signs)})"
        given = None if weights is None else vector_of(weights)
        self._fit_trees(table, label, given, options, self.forest)
        return self

    def predict(self, X: ArrayLike, *, roofline: ArrayLike) -> NDArray[np.float64]:
        """Seconds of rows [rows], given their features and the roofline model's seconds."""
        seconds = np.exp(self._known.predict(table_of(X)).astype(np.float64))
        return seconds * vector_of(roofline) if self.target == Target.RATIO else seconds

    def contributions(self, X: ArrayLike, *, roofline: ArrayLike) -> NDArray[np.float64]:
        """What each feature adds to the logarithm of seconds [rows, features + 1].

        See `Trees.contributions`. The last column holds what no feature explains: the mean, and
        the roofline where the target is the ratio to it. A row's sum is the logarithm of its
        prediction.
        """
        found = self._known.contributions(table_of(X)).astype(np.float64)
        if self.target == Target.RATIO:
            found[:, -1] += np.log(vector_of(roofline))
        return found

    def importance(self) -> dict[str, float]:
        """Share of the error that splits by each feature removed, the greatest first."""
        gains = zip(self.features, self._known.gain.astype(np.float64).tolist(), strict=True)
        known = {name: gain for name, gain in gains if gain > 0}
        total = sum(known.values()) or 1.0
        return dict(sorted(((n, g / total) for n, g in known.items()), key=lambda i: (-i[1], i[0])))


def _check(X: NDArray[np.float32], seconds: NDArray[np.float64], roofline: NDArray[Any]) -> None:
    if X.ndim != 2 or not len(X) or not len(X) == len(seconds) == len(roofline):
        raise ModelError(
            f"cannot fit to features {list(X.shape)}, {len(seconds)} times and {len(roofline)} "
            "roofline times: give one of each for every row, and at least one row"
        )
    if not np.isfinite(X).all():
        row, column = (int(where[0]) for where in np.nonzero(~np.isfinite(X)))
        raise ModelError(f"feature {column} of row {row} is not finite: leave such rows out")
    for name, values in (("time", seconds), ("roofline time", roofline)):
        bad = np.flatnonzero(~((values > 0) & np.isfinite(values)))
        if len(bad):
            raise ModelError(
                f"the {name} of row {bad[0]} is {values[bad[0]]}, not a positive number: leave "
                "such rows out"
            )
