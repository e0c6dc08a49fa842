"""scikit-learn's conventions around trees that XGBoost fits, without scikit-learn."""

from __future__ import annotations

import inspect
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hetune.costmodel.model.booster import library, trees_of
from hetune.costmodel.model.trees import Trees
from hetune.variants.errors import ModelError

_SHARED_ROWS = 8000
"""Threads that share fewer rows wait for each other more than they work."""


class Estimator:
    """Trees with scikit-learn's conventions: arguments are attributes, `fit` fills `fitted_`.

    Its kinds are dataclasses, whose fields are their arguments.
    """

    features: tuple[str, ...]
    trees: int
    depth: int
    learning_rate: float
    subsample: float
    colsample: float
    min_child_weight: float
    seed: int
    jobs: int
    fitted_: Trees

    def get_params(self) -> dict[str, Any]:
        """The arguments that it was made with, by name."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def load(self, data: bytes) -> Self:
        """Takes over trees that `dump` wrote.

        Raises:
            ModelError: These bytes are none.
        """
        found = Trees.load(data)
        if found.features != len(self.features):
            raise ModelError(
                f"these trees ask for {found.features} features, not {len(self.features)}: "
                "train the model again with this version of hetune"
            )
        self.fitted_ = found
        return self

    def dump(self) -> bytes:
        """The fitted trees as bytes."""
        return self._known.dump()

    def _fit_trees(
        self,
        X: NDArray[np.float32],
        y: NDArray[np.float64],
        weights: NDArray[np.float64] | None,
        options: dict[str, Any],
        forest: int = 1,
    ) -> None:
        threads = self.jobs or (0 if len(X) >= _SHARED_ROWS else 1)
        common = {
            "tree_method": "hist",
            "max_depth": self.depth,
            "eta": self.learning_rate,
            "subsample": self.subsample,
            "colsample_bytree": self.colsample,
            "min_child_weight": self.min_child_weight,
            "num_parallel_tree": forest,
            "seed": self.seed,
            "nthread": threads,
        }
        xgboost = library()
        names = list(self.features)
        data = xgboost.DMatrix(X, y, weight=weights, feature_names=names, nthread=threads)
        self.fitted_ = trees_of(xgboost.train(common | options, data, -(-self.trees // forest)))

    @property
    def _known(self) -> Trees:
        if not hasattr(self, "fitted_"):
            raise ModelError(f"this {type(self).__name__} is not fitted: call fit first")
        return self.fitted_


def table_of(X: ArrayLike) -> NDArray[np.float32]:
    """Features as trees read them."""
    return np.ascontiguousarray(X, dtype=np.float32)


def vector_of(values: ArrayLike) -> NDArray[np.float64]:
    """Numbers of rows."""
    return np.asarray(values, dtype=np.float64)
