"""The features of launches in C++ (`launch.cpp`), called through ctypes."""

from __future__ import annotations

import ctypes
from dataclasses import astuple
from functools import cache, lru_cache

import numpy as np

from hetune.costmodel.features import launch
from hetune.costmodel.features.graph import CACHED_ROWS
from hetune.costmodel.features.graph import NAMES as GRAPH_NAMES
from hetune.variants.errors import ModelError
from hetune.variants.registry import load_packaged
from hetune.variants.runtime.roofline import MachineModel
from hetune.variants.runtime.table import COLUMNS

_OF_GRAPH = [
    GRAPH_NAMES.index(name)
    for name in (
        *launch.OF_GRAPH,
        *(f"{table}_misses_{rows}" for table in ("src", "src_pair") for rows in CACHED_ROWS),
    )
]


@cache
def library() -> ctypes.CDLL:
    """The compiled source.

    Raises:
        CompileError: There is no compiler, or it refused the source.
    """
    what, package = "features of launches", "hetune.costmodel.features"
    compiled = load_packaged(package, "launch.cpp", "launch-features", what)
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    types = pointer, number, pointer, pointer, number, number, pointer, pointer
    compiled.hetune_launch_features.argtypes = types
    compiled.hetune_launch_features.restype = None
    return compiled


def features_of(
    columns: np.ndarray, graph_features: np.ndarray, machine: MachineModel, threads: int
) -> tuple[np.ndarray, np.ndarray]:
    """As `launch_features`.

    Raises:
        ModelError: Rows are no rows of `COLUMNS`.
    """
    if columns.ndim != 2 or columns.shape[1] != len(COLUMNS):
        raise ModelError(
            f"launches with numbers {list(columns.shape)} are none that this version of hetune "
            f"can tell features of: give {len(COLUMNS)} for each"
        )
    launches = np.ascontiguousarray(columns, np.float64)
    graph = np.ascontiguousarray(graph_features[_OF_GRAPH], np.float64)
    features = np.empty((len(launches), len(launch.NAMES)), np.float32)
    seconds = np.empty(len(launches))
    library().hetune_launch_features(
        launches.ctypes.data,
        len(launches),
        graph.ctypes.data,
        _numbers(machine).ctypes.data,
        threads,
        features.shape[1],
        features.ctypes.data,
        seconds.ctypes.data,
    )
    return features, seconds


@lru_cache(maxsize=16)
def _numbers(machine: MachineModel) -> np.ndarray:
    return np.array(astuple(machine), np.float64)
