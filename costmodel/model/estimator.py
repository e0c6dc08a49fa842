"""scikit-learn's conventions around XGBoost's trees, without scikit-learn."""

from __future__ import annotations

import importlib
import inspect
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hetune.costmodel.model.trees import Trees
from hetune.variants.errors import ModelError

if TYPE_CHECKING:
    import xgboost

_SHARED_ROWS = 8000
"""Threads that share fewer rows wait for each other more than they work."""


class Estimator:
    """Trees with scikit-learn's conventions: arguments are attributes, `fit` fills `booster_`.

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
    booster_: xgboost.Booster

    def get_params(self) -> dict[str, Any]:
        """The arguments that it was made with, by name."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def load(self, data: bytes) -> Self:
        """Takes over trees that `dump` wrote.

        Raises:
            ModelError: These bytes are none.
        """
        xgboost = library()
        try:
            booster = xgboost.Booster(model_file=bytearray(data))
        except xgboost.core.XGBoostError as error:
            reason = str(error).strip().splitlines()[-1]
            raise ModelError(
                f"these are no trees that XGBoost {xgboost.__version__} can read ({reason}): "
                "upgrade XGBoost, or train the model again with this version of hetune"
            ) from None
        if booster.num_features() != len(self.features):
            raise ModelError(
                f"these trees ask for {booster.num_features()} features, not {len(self.features)}: "
                "train the model again with this version of hetune"
            )
        self._take(booster)
        return self

    def dump(self) -> bytes:
        """The fitted trees, as XGBoost's UBJSON."""
        return bytes(self.booster_.save_raw("ubj"))

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
        self._take(xgboost.train(common | options, data, -(-self.trees // forest)))

    def _take(self, booster: xgboost.Booster) -> None:
        # Predictions of a hundred rows take less than it takes to wake other threads.
        booster.set_param({"nthread": 1})
        # The first prediction also sets the booster up, which two threads must not do at once.
        booster.inplace_predict(np.zeros((1, booster.num_features()), np.float32))
        self.booster_ = booster
        self.__dict__.pop("_trees", None)

    @cached_property
    def _trees(self) -> Trees | None:
        return Trees.of(self.booster_)

    def _raw(self, X: NDArray[np.float32]) -> NDArray[np.float32]:
        if not hasattr(self, "booster_"):
            raise ModelError(f"this {type(self).__name__} is not fitted: call fit first")
        if self._trees is not None and self._trees.fits(X):
            return self._trees.predict(X)
        found: NDArray[np.float32] = self.booster_.inplace_predict(X, validate_features=False)
        return found


def library() -> Any:
    """The module `xgboost`, imported when trees are first asked for: not with hetune.

    It imports scikit-learn and pandas where they are installed, which takes seconds.

    Raises:
        ModelError: It is not installed, or its library cannot be loaded.
    """
    try:
        return importlib.import_module("xgboost")
    except Exception as error:  # XGBoost raises errors of its own where it lacks OpenMP, say
        reason = " ".join(str(error).split())
        raise ModelError(
            f"trees need xgboost, which cannot be imported ({reason}): pip install xgboost-cpu, "
            "and what its library needs"
        ) from error


def table_of(X: ArrayLike) -> NDArray[np.float32]:
    """Features as XGBoost reads them fastest."""
    return np.ascontiguousarray(X, dtype=np.float32)


def vector_of(values: ArrayLike) -> NDArray[np.float64]:
    """Numbers of rows."""
    return np.asarray(values, dtype=np.float64)
