"""Fits regressors and their error's quantiles, and judges them on graphs that were held out."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hetune.costmodel.features.devices import increasing_of, names_of
from hetune.costmodel.model.folds import folds_of
from hetune.costmodel.model.quantiles import ErrorQuantiles
from hetune.costmodel.model.regressor import LaunchRegressor, Target
from hetune.costmodel.model.training_rows import TrainingRows
from hetune.variants.errors import ModelError

_log = logging.getLogger(__name__)
_FEWEST_ROWS = 16
"""Of a kernel family, for a regressor of its own; the roofline model answers below."""
_REGRET_NOISE = 0.003
"""What another seed alone moves a regret by."""


@dataclass(frozen=True, slots=True)
class FamilyModel:
    """What is fitted for one kernel family.

    Attributes:
        rows: Distinct launches that it was fitted to.
        regressor: Predicts seconds.
        quantiles: Bounds of its error; None where nothing could be held out.
    """

    rows: int
    regressor: LaunchRegressor
    quantiles: ErrorQuantiles | None


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Predictions for rows by models that had not seen their group.

    Attributes:
        target: What those models predict.
        seconds: float64 [rows].
    """

    target: Target
    seconds: NDArray[np.float64]

    @classmethod
    def of(cls, rows: TrainingRows, target: Target, folds: int) -> HeldOut:
        """Fits on all parts but one, and predicts that one; each in turn.

        Raises:
            ModelError: All rows are of one problem.
        """
        parts = folds_of(rows.groups, folds)
        if len(np.unique(parts)) < 2:
            raise ModelError(
                "a cost model needs two measured inputs at least, to be judged on one that it was "
                "not fitted to: measure more"
            )
        seconds = rows.roofline.copy()
        for part in np.unique(parts):
            held = parts == part
            for family, regressor in fit_regressors(rows, target, ~held).items():
                places = held & (rows.families == family)
                if places.any():
                    seconds[places] = regressor.predict(
                        rows.X[places], roofline=rows.roofline[places]
                    )
        return cls(target, seconds)


def fit_regressors(
    rows: TrainingRows, target: Target, selected: NDArray[np.bool_] | None = None
) -> dict[str, LaunchRegressor]:
    """A regressor for each kernel family that has enough of the selected rows."""
    chosen = np.ones(len(rows.seconds), dtype=bool) if selected is None else selected
    names, increasing = names_of(rows.device), increasing_of(rows.device)
    found = {}
    for family in np.unique(rows.families):
        places = chosen & (rows.families == family)
        if np.count_nonzero(places) >= _FEWEST_ROWS:
            regressor = LaunchRegressor(names, target=target, increasing=increasing)
            found[str(family)] = regressor.fit(
                rows.X[places],
                rows.seconds[places],
                roofline=rows.roofline[places],
                weights=rows.weights[places],
            )
    return found


def fit_families(
    rows: TrainingRows, target: Target, held_out: HeldOut | None
) -> dict[str, FamilyModel]:
    """Everything that a cost model is made of, by kernel family.

    Args:
        rows: What to fit to.
        target: What to predict.
        held_out: Predictions whose errors the quantiles are fitted to; without any, there are none.

    Raises:
        ModelError: No family has enough rows.
    """
    found = {}
    for family, regressor in fit_regressors(rows, target).items():
        places = rows.families == family
        quantiles = None
        if held_out is not None and len(np.unique(rows.groups[places])) > 1:
            quantiles = ErrorQuantiles(names_of(rows.device)).fit(
                rows.X[places],
                np.log(rows.seconds[places] / held_out.seconds[places]),
                groups=rows.groups[places],
                weights=rows.weights[places],
            )
        found[family] = FamilyModel(int(places.sum()), regressor, quantiles)
    for family in sorted(set(rows.families.tolist()) - found.keys()):
        count = int((rows.families == family).sum())
        _log.warning(
            "%d launches of the kernel family %r are too few for a regressor (%d): the roofline "
            "model will answer for it",
            count,
            family,
            _FEWEST_ROWS,
        )
    if not found:
        raise ModelError(
            f"the {len(rows.seconds)} distinct launches that were measured are too few: a cost "
            f"model needs {_FEWEST_ROWS} of one kernel family at least: profile more graphs, as "
            "`hetune profile default` does"
        )
    return found


def score(rows: TrainingRows, seconds: NDArray[np.float64], tie: float = 1.0) -> dict[str, float]:
    """How good predictions of rows are, and what is chosen by them under a tie.

    Returns:
        `regret` (geometric mean over the problems), `regret_p95`, `regret_max`, and `error`:
        weighted root mean square of log(predicted / measured).
    """
    regrets = rows.regrets(seconds, tie)
    errors = np.log(seconds / rows.seconds)
    return {
        "regret": float(np.exp(np.log(regrets).mean())),
        "regret_p95": float(np.quantile(regrets, 0.95)),
        "regret_max": float(regrets.max()),
        "error": float(np.sqrt(np.average(errors**2, weights=rows.weights))),
    }


def best(held_out: Sequence[HeldOut], scores: Mapping[str, Mapping[str, float]]) -> HeldOut:
    """The one with the least error, of those whose regrets are as good as equal to the least."""
    least = min(scores[h.target]["regret"] for h in held_out)
    near = [h for h in held_out if scores[h.target]["regret"] <= least + _REGRET_NOISE]
    return min(near, key=lambda h: scores[h.target]["error"])
