"""XGBoost's trees in arrays, summed in C++ (`trees.cpp`).

XGBoost predicts for many rows, and a choice asks three boosters for a few dozen each. What is said
here of a row is to the bit what XGBoost says, sooner.
"""

from __future__ import annotations

import ctypes
import json
import logging
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from hetune.variants.errors import HetuneError
from hetune.variants.registry import load_packaged

if TYPE_CHECKING:
    import xgboost

_log = logging.getLogger(__name__)
_DEEPEST = 8
"""Levels of a complete tree: each one more doubles its arrays."""
_PROBES = 64
"""Rows on which XGBoost is asked whether it says the same."""


@dataclass(frozen=True, eq=False)
class Trees:
    """Regression trees, each complete.

    Attributes:
        feature: What each inner node looks at, level by level; int32 [trees, 2^depth - 1].
        threshold: Below it a row goes left; float32, of the same shape.
        leaf: float32 [trees, 2^depth].
        output: Which output a tree adds to; int32 [trees].
        base: What the trees add to; float32 [outputs].
        features: How many a row has.
    """

    feature: NDArray[np.int32]
    threshold: NDArray[np.float32]
    leaf: NDArray[np.float32]
    output: NDArray[np.int32]
    base: NDArray[np.float32]
    features: int

    @classmethod
    def of(cls, booster: xgboost.Booster) -> Self | None:
        """A booster's trees.

        None, and a line in the log, where they cannot be had: they are too deep, they split by
        categories, there is no compiler or no space for what it makes, or XGBoost writes down
        something else than it does.
        """
        try:
            library()
            found = cls._read(json.loads(bytes(booster.save_raw("json")))["learner"])
        except (HetuneError, OSError, LookupError, TypeError, ValueError) as error:
            _log.warning("XGBoost predicts itself, which is slower: %s", error)
            return None
        rows = found._probe()
        expected = booster.inplace_predict(rows, validate_features=False)
        if not np.allclose(found.predict(rows), expected, rtol=1e-4, atol=1e-5):
            _log.warning(
                "XGBoost predicts itself, which is slower: its trees do not read as they predict"
            )
            return None
        return found

    @classmethod
    def _read(cls, learner: dict[str, Any]) -> Self:
        """What XGBoost's JSON says.

        Raises:
            LookupError, TypeError: Something is missing in it, or is something else.
            ValueError: The trees are none that can be summed.
        """
        model, params = learner["gradient_booster"]["model"], learner["learner_model_param"]
        output = np.array(model["tree_info"], np.int32)
        base = np.array(json.loads(params["base_score"]), np.float32).reshape(-1)
        base = np.broadcast_to(base, max(len(base), int(output.max(initial=0)) + 1))
        feature, threshold, leaf = _completed(model["trees"])
        features = int(params["num_feature"])
        if not ((feature >= 0) & (feature < features)).all():
            raise ValueError("a tree looks at a feature that there is not")
        if len(output) != len(leaf) or (output < 0).any():
            raise ValueError("a tree is of no output")
        return cls(feature, threshold, leaf, output, np.ascontiguousarray(base), features)

    @cached_property
    def _given(self) -> tuple[int, ...]:
        """The trees as C++ takes them."""
        lists = self.feature, self.threshold, self.leaf, self.output
        depth, outputs = self.leaf.shape[1].bit_length() - 1, len(self.base)
        places = [each.ctypes.data for each in lists]
        return *places, len(self.leaf), depth, self.base.ctypes.data, outputs

    def _probe(self) -> NDArray[np.float32]:
        """Rows that lie about the thresholds."""
        drawn = np.random.default_rng(0).choice(
            np.append(self.threshold[np.isfinite(self.threshold)], 0), (_PROBES, self.features)
        )
        found: NDArray[np.float32] = drawn.astype(np.float32)
        return found

    def fits(self, X: NDArray[np.float32]) -> bool:
        """Whether `predict` may be asked about these rows."""
        return X.ndim == 2 and X.shape[1] == self.features and bool(np.isfinite(X).all())

    def predict(self, X: NDArray[np.float32]) -> NDArray[np.float32]:
        """What the trees say of rows.

        Args:
            X: Such as `fits`, contiguous [rows, features].

        Returns:
            [rows], or [rows, outputs] where there are several.
        """
        out = np.empty((len(X), len(self.base)), np.float32)
        found = library().hetune_trees(X.ctypes.data, *X.shape, *self._given, out.ctypes.data)
        if found < 0:
            raise MemoryError("out of memory while times were predicted")
        return out[:, 0] if len(self.base) == 1 else out


def _completed(
    trees: list[dict[str, Any]],
) -> tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.float32]]:
    """Features, thresholds and leaves of complete trees.

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
    left, right, feature, value = (
        np.array([each for tree in trees for each in tree[name]])
        for name in ("left_children", "right_children", "split_indices", "split_conditions")
    )
    ends = left < 0
    left, right = (np.where(ends, own, first + side) for side in (left, right))
    level = roots[:, None]
    levels: list[NDArray[np.intp]] = []
    while not levels or not ends[level].all():
        if len(levels) == _DEEPEST:
            raise ValueError(f"trees have more than {_DEEPEST} levels")
        levels.append(level)
        level = np.stack((left[level], right[level]), axis=2).reshape(len(trees), -1)
    inner = np.concatenate(levels, axis=1)
    return (
        np.ascontiguousarray(np.where(ends, 0, feature)[inner], np.int32),
        np.ascontiguousarray(np.where(ends, np.inf, value)[inner], np.float32),
        np.ascontiguousarray(value[level], np.float32),
    )


@cache
def library() -> ctypes.CDLL:
    """The compiled source.

    Raises:
        CompileError: There is no compiler, or it refused the source.
    """
    what = "sums of regression trees"
    compiled = load_packaged("hetune.costmodel.model", "trees.cpp", "trees", what)
    compiled.hetune_trees.argtypes = [
        ctypes.c_void_p,
        *[ctypes.c_int64] * 2,
        *[ctypes.c_void_p] * 4,
        *[ctypes.c_int64] * 2,
        ctypes.c_void_p,
        ctypes.c_int64,
        ctypes.c_void_p,
    ]
    compiled.hetune_trees.restype = ctypes.c_int64
    return compiled
