"""What cost models see of a launch: its counts, the graph's shape and the machine's limits."""

from __future__ import annotations

import ctypes
from dataclasses import astuple
from functools import cache, lru_cache

import numpy as np

from hetune.costmodel.features.graph import CACHED_ROWS
from hetune.costmodel.features.graph import NAMES as GRAPH_NAMES
from hetune.variants.errors import ModelError
from hetune.variants.registry import load_packaged
from hetune.variants.runtime.launch_columns import COLUMNS
from hetune.variants.runtime.roofline import PARTS, MachineModel

_AMOUNTS = (
    "matrix_flops",
    "vector_flops",
    "special",
    "read_bytes",
    "write_bytes",
    "index_bytes",
    "gathered_bytes",
    "touched_bytes",
    "scratch_bytes",
    "scatter_bytes",
    "weight_loads",
    "gemm_rows",
    "edge_visits",
)
_PLAIN = ("kernels", "gemms", "segment_sums", "k", "n", "unblocked", "edge_balanced")
OF_GRAPH = (
    "in_degree_mean",
    "in_degree_gini",
    "in_degree_hub_share",
    "in_degree_top_share",
    "out_degree_top_share",
    "etypes_per_destination",
    "dst_pairs_per_etype_256",
    "near_gathers",
)
"""Features of the graph that are features of its launches, too."""
_RATIOS = (
    "blocks",
    "blocks_per_thread",
    "block_nodes",
    "edges_per_block",
    "rows_per_weight_group",
    "gathered_row_bytes",
    "gathers_per_read",
    "flops_per_byte",
    "table_in_own_cache",
    "table_in_shared_cache",
    "weights_in_own_cache",
    "scratch_in_own_cache",
)
_GATHERS = ("gathers_missing_own_cache", "gathers_missing_shared_cache", "gathers_of_pairs")
_NATIVE_POSITIONS = [
    GRAPH_NAMES.index(name)
    for name in (
        *OF_GRAPH,
        *(f"{table}_misses_{rows}" for table in ("src", "src_pair") for rows in CACHED_ROWS),
    )
]

NAMES = (
    "roofline_seconds",
    *(f"{name}_share" for name in PARTS),
    *_AMOUNTS,
    *_RATIOS,
    *_GATHERS,
    *_PLAIN,
    "threads",
    *OF_GRAPH,
)
"""Names of a launch's features. Times, amounts and ratios are natural logarithms.

- `roofline_seconds`: what the roofline model predicts; `..._share`: the part of it that each of
  `PARTS` makes, 0 to 1;
- amounts: columns of the candidate table, as log(1 + amount);
- `blocks`, `block_nodes`, `blocks_per_thread`, `edges_per_block`: how the work is cut;
- `rows_per_weight_group`: rows in a run that shares one weight; `gathered_row_bytes`;
  `gathers_per_read`: bytes gathered per distinct byte read; `flops_per_byte`: operations per
  compulsory byte;
- `..._in_..._cache`: a working set as a share of a cache: the rows gathered from, the edge types'
  weights, a block's scratch;
- `gathers_missing_..._cache`: the share of gathers whose row such a cache would not hold, 0 to 1;
- `gathers_of_pairs`: the share of gathers that read rows of source pairs, which a launch before has
  written, 0 to 1;
- the structure of the launch, the number of threads, and features of the graph.
"""

INCREASING = frozenset({"roofline_seconds", *_AMOUNTS})
"""Features in which time cannot fall."""


def launch_features(
    columns: np.ndarray, graph_features: np.ndarray, machine: MachineModel, threads: int
) -> tuple[np.ndarray, np.ndarray]:
    """The features of launches on a graph, and the roofline model's seconds, one of them.

    Args:
        columns: `CandidateTable.columns`, float64 [rows, `COLUMNS`].
        graph_features: `graph_features` of the graph, float64.
        machine: Rates and caches.
        threads: How many share a launch's blocks.

    Returns:
        float32 [rows, `NAMES`], finite; and float64 [rows].

    Raises:
        ModelError: Rows are no rows of `COLUMNS`.
        CompileError: There is no compiler.
    """
    if columns.ndim != 2 or columns.shape[1] != len(COLUMNS):
        raise ModelError(
            f"launches with numbers {list(columns.shape)} are none that this version of hetune "
            f"can tell features of: give {len(COLUMNS)} for each"
        )
    launches = np.ascontiguousarray(columns, np.float64)
    graph = np.ascontiguousarray(graph_features[_NATIVE_POSITIONS], np.float64)
    features = np.empty((len(launches), len(NAMES)), np.float32)
    seconds = np.empty(len(launches))
    _library().hetune_launch_features(
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


@cache
def _library() -> ctypes.CDLL:
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


@lru_cache(maxsize=16)
def _numbers(machine: MachineModel) -> np.ndarray:
    return np.array(astuple(machine), np.float64)
