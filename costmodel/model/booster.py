"""Reads XGBoost's trees, once they are fitted."""

from __future__ import annotations

import importlib
import json
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hetune.costmodel.model.trees import DEEPEST, Trees
from hetune.variants.errors import ModelError

if TYPE_CHECKING:
    import xgboost

_PROBES = 64
"""Rows on which XGBoost is asked whether it says the same."""


def trees_of(booster: xgboost.Booster) -> Trees:
    """A booster's trees.

    Raises:
        ModelError: They are too deep, they split by categories, or XGBoost writes down something
            else than it does.
        CompileError: There is no compiler for what sums trees.
    """
    try:
        found = _read(json.loads(bytes(booster.save_raw("json")))["learner"])
    except (LookupError, TypeError, ValueError) as error:
        raise ModelError(
            f"XGBoost's trees cannot be taken over ({error}): fit them with a depth of at most "
            f"{DEEPEST}, by a version of XGBoost that hetune is tested with"
        ) from error
    rows = _probe(found)
    expected = booster.inplace_predict(rows, validate_features=False)
    if not np.allclose(found.predict(rows), expected, rtol=1e-4, atol=1e-5):
        raise ModelError(
            "XGBoost's trees do not read as they predict: install a version of XGBoost that "
            "hetune is tested with"
        )
    return found


def _read(learner: dict[str, Any]) -> Trees:
    """What XGBoost's JSON says.

    Raises:
        LookupError, TypeError: Something is missing in it, or is something else.
        ValueError: The trees are none that can be summed.
    """
    model, params = learner["gradient_booster"]["model"], learner["learner_model_param"]
    output = np.array(model["tree_info"], np.int32)
    base = np.array(json.loads(params["base_score"]), np.float32).reshape(-1)
    base = np.broadcast_to(base, max(len(base), int(output.max(initial=0)) + 1))
    gain = np.zeros(int(params["num_feature"]), np.float32)
    for tree in model["trees"]:
        is_inner = np.array(tree["left_children"]) >= 0
        splits = np.array(tree["split_indices"])[is_inner]
        np.add.at(gain, splits, np.array(tree["loss_changes"])[is_inner])
    return Trees(
        **_completed(model["trees"]), output=output, base=np.ascontiguousarray(base), gain=gain
    )


def _probe(trees: Trees) -> NDArray[np.float32]:
    """Rows that lie about the thresholds."""
    drawn = np.random.default_rng(0).choice(
        np.append(trees.threshold[np.isfinite(trees.threshold)], 0), (_PROBES, trees.features)
    )
    found: NDArray[np.float32] = drawn.astype(np.float32)
    return found


def _completed(trees: list[dict[str, Any]]) -> dict[str, NDArray[Any]]:
    """Features, thresholds, leaves and their covers of complete trees.

    Where a tree ends early, all of its rows go left, to a leaf that is there as often as needed.

    Raises:
        ValueError: They are too deep, or split by categories.
    """
    if any(any(tree["split_type"]) for tree in trees):
        raise ValueError("trees split by categories")
    sizes = [len(tree["left_children"]) for tree in trees]
    roots = np.cumsum([0, *sizes])[:-1]
    own = np.arange(sum(sizes))
    first = np.repeat(roots, sizes)
    left, right, feature, value, weight = (
        np.array([each for tree in trees for each in tree[name]])
        for name in (
            "left_children",
            "right_children",
            "split_indices",
            "split_conditions",
            "sum_hessian",
        )
    )
    ends = left < 0
    left, right = (np.where(ends, own, first + side) for side in (left, right))
    level = roots[:, None]
    is_first = np.ones_like(level, bool)  # the leaf that rows of a tree that ended early go to
    levels: list[NDArray[np.intp]] = []
    while not levels or not ends[level].all():
        if len(levels) == DEEPEST:
            raise ValueError(f"trees have more than {DEEPEST} levels")
        levels.append(level)
        right_first = is_first & ~ends[level]
        is_first = np.stack((is_first, right_first), axis=2).reshape(len(trees), -1)
        level = np.stack((left[level], right[level]), axis=2).reshape(len(trees), -1)
    inner = np.concatenate(levels, axis=1)
    return {
        "feature": np.ascontiguousarray(np.where(ends, 0, feature)[inner], np.int32),
        "threshold": np.ascontiguousarray(np.where(ends, np.inf, value)[inner], np.float32),
        "leaf": np.ascontiguousarray(value[level], np.float32),
        "cover": np.ascontiguousarray(np.where(is_first, weight[level], 0), np.float32),
    }


def library() -> Any:
    """The module `xgboost`, imported when trees are fitted: not with hetune.

    It imports scikit-learn and pandas where they are installed, which takes seconds.

    Raises:
        ModelError: It is not installed, or its library cannot be loaded.
    """
    try:
        return importlib.import_module("xgboost")
    except Exception as error:  # XGBoost raises errors of its own where it lacks OpenMP, say
        reason = " ".join(str(error).split())
        raise ModelError(
            f"fitting trees needs xgboost, which cannot be imported ({reason}): pip install "
            "xgboost-cpu, and what its library needs"
        ) from error
