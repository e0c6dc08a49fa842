"""How far predictions may be off: conformalized quantile regression.

Romano, Patterson and Candès, "Conformalized quantile regression", 2019: trees predict two
quantiles of an error, and both are moved apart by as much as held-out errors ask for. Held out are
whole families of graphs, one part after the other (as in Barber et al., "Predictive inference with
the jackknife+", 2021), so that the share of launches within their intervals is that on graphs of
new families.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hetune.costmodel.model.estimator import Estimator, table_of, vector_of
from hetune.costmodel.model.folds import folds_of
from hetune.variants.errors import ModelError


@dataclass(eq=False)
class ErrorQuantiles(Estimator):
    """Bounds of log(measured / predicted), as a function of the features.

    Args:
        features: Names of the columns of X.
        coverage: Share of errors between the bounds.
        folds: Parts that are held out in turn, to see how far bounds must move apart.
        trees: How many, for each bound.
        depth: Of each.
        learning_rate: Share of each tree's answer that is taken.
        subsample: Share of rows that each tree sees.
        colsample: Share of features that each tree sees.
        min_child_weight: Least weight of rows in a leaf.
        seed: Of the choice of rows and features.
        jobs: Threads to fit with; 0: all, if that is worth it.

    Attributes:
        widening_: What the lower bound is moved down, and the upper bound up; may be negative.
    """

    features: tuple[str, ...]
    _: KW_ONLY
    coverage: float = 0.8
    folds: int = 5
    trees: int = 60
    depth: int = 4
    learning_rate: float = 0.1
    subsample: float = 0.8
    colsample: float = 0.6
    min_child_weight: float = 10.0
    seed: int = 0
    jobs: int = 0
    widening_: float = field(init=False, repr=False)

    def fit(
        self, X: ArrayLike, y: ArrayLike, *, groups: ArrayLike, weights: ArrayLike | None = None
    ) -> Self:
        """Fits the trees, and moves their bounds apart.

        Args:
            X: Features [rows, features].
            y: log(measured / predicted), by a model that had not seen the row [rows].
            groups: Rows of one group are held out together [rows].
            weights: How much each row counts [rows]; alike by default.

        Raises:
            ModelError: All rows are of one group: nothing can be held out.
        """
        table, errors, names = table_of(X), vector_of(y), np.asarray(groups)
        counts = np.ones(len(errors)) if weights is None else vector_of(weights)
        parts = folds_of(names, self.folds)
        if len(np.unique(parts)) < 2:
            raise ModelError(
                "intervals need measurements of two graphs at least, to hold one out: measure more"
            )
        beyond = np.empty(len(errors))
        for part in np.unique(parts):
            held = parts == part
            self._fit_bounds(table[~held], errors[~held], counts[~held])
            low, high = self._known.predict(table[held]).astype(np.float64).T
            beyond[held] = np.maximum(low - errors[held], errors[held] - high)
        self.widening_ = _quantile(beyond, counts, self.coverage)
        self._fit_bounds(table, errors, counts)
        return self

    def predict(self, X: ArrayLike) -> NDArray[np.float64]:
        """Lower and upper bound of log(measured / predicted) [rows, 2]."""
        bounds = np.sort(self._known.predict(table_of(X)).astype(np.float64).reshape(-1, 2), axis=1)
        bounds += (-self.widening_, self.widening_)
        # A negative widening can carry one bound past the other: both become their middle.
        middle = bounds.mean(axis=1)
        crossed = bounds[:, 0] > bounds[:, 1]
        bounds[crossed] = middle[crossed, None]
        return bounds

    def _fit_bounds(
        self, X: NDArray[np.float32], y: NDArray[np.float64], weights: NDArray[np.float64]
    ) -> None:
        outside = (1 - self.coverage) / 2
        options = {"objective": "reg:quantileerror", "quantile_alpha": [outside, 1 - outside]}
        self._fit_trees(X, y, weights, options)


def _quantile(values: NDArray[np.float64], weights: NDArray[np.float64], share: float) -> float:
    """The least value that at least `share` of the weight does not exceed.

    One more row is counted, of average weight and beyond all others: the one to predict.
    """
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order]) / (weights.sum() + weights.mean())
    position = min(int(np.searchsorted(reached, share)), len(values) - 1)
    return float(values[order[position]])
