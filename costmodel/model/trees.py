"""Regression trees in arrays, summed and explained in C++ (`trees.cpp`).

They are XGBoost's, and say of a row to the bit what XGBoost says: see `booster`. A choice needs no
XGBoost, which is slow to import.
"""

from __future__ import annotations

import ctypes
import io
from dataclasses import dataclass, fields
from functools import cache, cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from hetune.variants.errors import ModelError
from hetune.variants.registry import load_packaged

DEEPEST = 8
"""Levels of a complete tree: each one more doubles its arrays."""


@dataclass(frozen=True, eq=False)
class Trees:
    """Regression trees, each complete.

    Attributes:
        feature: What each inner node looks at, level by level; int32 [trees, 2^depth - 1].
        threshold: Below it a row goes left; float32, of the same shape.
        leaf: float32 [trees, 2^depth].
        cover: Weight of the rows that each leaf was fitted to; float32, of the same shape.
        output: Which output a tree adds to; int32 [trees].
        base: What the trees add to; float32 [outputs].
        gain: What splits by each feature removed of the error; float32 [features].
    """

    feature: NDArray[np.int32]
    threshold: NDArray[np.float32]
    leaf: NDArray[np.float32]
    cover: NDArray[np.float32]
    output: NDArray[np.int32]
    base: NDArray[np.float32]
    gain: NDArray[np.float32]

    def __post_init__(self) -> None:
        """Checks what C++ relies on.

        Raises:
            ValueError: The arrays do not fit together.
        """
        shapes = {name: array.shape for name, array in self._arrays.items()}
        trees, leaves = shapes["leaf"]
        depth = leaves.bit_length() - 1
        wanted = {
            "feature": (trees, leaves - 1),
            "threshold": (trees, leaves - 1),
            "leaf": (trees, 2**depth),
            "cover": (trees, leaves),
            "output": (trees,),
            "base": (self.base.size,),
            "gain": (self.gain.size,),
        }
        if shapes != wanted:
            raise ValueError(f"arrays of trees have the shapes {shapes}")
        if not 1 <= depth <= DEEPEST:
            raise ValueError(f"trees have {depth} levels, not 1 to {DEEPEST}")
        if not _is_below(self.feature, self.features):
            raise ValueError("a tree looks at a feature that there is not")
        if not _is_below(self.output, len(self.base)):
            raise ValueError("a tree is of no output")
        if not (np.isfinite(self.leaf).all() and (self.cover.sum(axis=1) > 0).all()):
            raise ValueError("leaves are not finite, or no row was in them")

    def __getstate__(self) -> dict[str, Any]:
        """The arrays alone: a copy has others, at other addresses."""
        return self._arrays

    @property
    def features(self) -> int:
        """How many a row has."""
        return len(self.gain)

    @classmethod
    def load(cls, data: bytes) -> Self:
        """What `dump` wrote.

        Raises:
            ModelError: These bytes are no such trees.
        """
        try:
            with np.load(io.BytesIO(data), allow_pickle=False) as read:
                arrays: dict[str, Any] = {
                    name: np.ascontiguousarray(read[name], _TYPES[name]) for name in read
                }
            return cls(**arrays)
        except Exception as error:  # whatever is in the bytes
            raise ModelError(
                f"these are no trees that hetune wrote ({type(error).__name__}: {error}): train "
                "the model again"
            ) from None

    def dump(self) -> bytes:
        """The arrays in NumPy's own format, always the same bytes for the same trees."""
        file = io.BytesIO()
        np.savez(file, **self._arrays)
        return file.getvalue()

    def predict(self, X: NDArray[np.float32]) -> NDArray[np.float32]:
        """What the trees say of rows.

        Args:
            X: Contiguous [rows, features].

        Returns:
            [rows], or [rows, outputs] where there are several.

        Raises:
            ModelError: Rows have other features, or some that are not finite.
        """
        self._check(X)
        out = np.empty((len(X), len(self.base)), np.float32)
        code = library().hetune_trees(X.ctypes.data, *X.shape, *self._given, out.ctypes.data)
        _check_memory(code)
        return out[:, 0] if len(self.base) == 1 else out

    def contributions(self, X: NDArray[np.float32]) -> NDArray[np.float32]:
        """What each feature adds to the only output.

        These are SHAP values, each feature's average over all orders in which a row's features may
        become known, where those that are not known follow the rows that the trees were fitted to
        (Lundberg et al., "Consistent individualized feature attribution for tree ensembles", 2018).

        Args:
            X: As of `predict`.

        Returns:
            [rows, features + 1]: the last is what the trees say of no row in particular. A row's
            sum is what `predict` says.
        """
        self._check(X)
        out = np.empty((len(X), self.features + 1), np.float32)
        given = X.ctypes.data, *X.shape, *self._given, self.cover.ctypes.data, out.ctypes.data
        _check_memory(library().hetune_contributions(*given))
        return out

    @property
    def _arrays(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @cached_property
    def _given(self) -> tuple[int, ...]:
        """The trees as C++ takes them."""
        lists = self.feature, self.threshold, self.leaf, self.output
        depth, outputs = self.leaf.shape[1].bit_length() - 1, len(self.base)
        places = [each.ctypes.data for each in lists]
        return *places, len(self.leaf), depth, self.base.ctypes.data, outputs

    def _check(self, X: NDArray[np.float32]) -> None:
        if X.ndim != 2 or X.shape[1] != self.features:
            raise ModelError(
                f"rows of the shape {list(X.shape)} are none of {self.features} features: give "
                "the trees what they were fitted to"
            )
        if not np.isfinite(X).all():
            raise ModelError("a feature is not finite: leave such rows out")


_TYPES = {
    name: np.int32 if name in ("feature", "output") else np.float32
    for name in (field.name for field in fields(Trees))
}


def _is_below(values: NDArray[np.int32], end: int) -> bool:
    return bool(((values >= 0) & (values < end)).all())


def _check_memory(code: int) -> None:
    if code < 0:
        raise MemoryError("out of memory while times were predicted")


@cache
def library() -> ctypes.CDLL:
    """The compiled source.

    Raises:
        CompileError: There is no compiler, or it refused the source.
    """
    what = "sums of regression trees"
    compiled = load_packaged("hetune.costmodel.model", "trees.cpp", "trees", what)
    given: list[Any] = [
        ctypes.c_void_p,
        *[ctypes.c_int64] * 2,
        *[ctypes.c_void_p] * 4,
        *[ctypes.c_int64] * 2,
        ctypes.c_void_p,
        ctypes.c_int64,
    ]
    compiled.hetune_trees.argtypes = [*given, ctypes.c_void_p]
    compiled.hetune_contributions.argtypes = [*given, *[ctypes.c_void_p] * 2]
    for function in (compiled.hetune_trees, compiled.hetune_contributions):
        function.restype = ctypes.c_int64
    return compiled
