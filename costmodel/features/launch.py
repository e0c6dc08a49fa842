"""What cost models see of a launch: its counts, the graph's shape and the machine's limits."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from hetune.costmodel.features.graph import NAMES as GRAPH_NAMES
from hetune.costmodel.features.graph import missing_share
from hetune.costmodel.features.native import native_or_numpy
from hetune.variants.runtime.roofline import (
    PARTS,
    MachineModel,
    roofline_parts,
    roofline_seconds,
)
from hetune.variants.runtime.table import COLUMNS

_COLUMN = {name: position for position, name in enumerate(COLUMNS)}
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
_GRAPH_POSITIONS = [GRAPH_NAMES.index(name) for name in OF_GRAPH]

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
    """
    return _implementation()(columns, graph_features, machine, threads)


@cache
def _implementation() -> Callable[..., tuple[np.ndarray, np.ndarray]]:
    from hetune.costmodel.features import launch_native as native

    what, numpy = "features of launches", computed_by_numpy
    return native_or_numpy(what, native.library, native.features_of, numpy)


def computed_by_numpy(
    columns: np.ndarray, graph_features: np.ndarray, machine: MachineModel, threads: int
) -> tuple[np.ndarray, np.ndarray]:
    """As `launch_features`, where there is no compiler."""
    of = dict(zip(COLUMNS, columns.T, strict=True))
    parts = roofline_parts(columns, machine, threads)
    busy = np.maximum(parts.sum(axis=1, keepdims=True), 1e-12)
    compulsory = of["read_bytes"] + of["write_bytes"] + of["index_bytes"]
    flops = of["matrix_flops"] + of["vector_flops"] + of["special"]
    blocks = of["blocks"]
    ratios = (
        blocks,
        blocks / threads,
        of["block_nodes"],
        of["edge_visits"] / blocks,
        of["gemm_rows"] / np.maximum(of["weight_groups"], 1),
        of["gathered_bytes"] / np.maximum(of["gathers"], 1),
        of["gathered_bytes"] / np.maximum(of["read_bytes"], 1),
        flops / np.maximum(compulsory, 1),
        of["table_bytes"] / machine.own_bytes,
        of["table_bytes"] / machine.shared_bytes,
        of["weight_bytes"] / machine.own_bytes,
        of["scratch_bytes"] / blocks / machine.own_bytes,
    )
    rows, seconds = len(columns), roofline_seconds(columns, machine, threads, parts)
    shared = np.array([threads, *graph_features[_GRAPH_POSITIONS]], np.float64)
    features = np.concatenate(
        (
            np.log(seconds)[:, None],
            parts / busy,
            np.log1p(columns[:, [_COLUMN[name] for name in _AMOUNTS]]),
            np.log(np.maximum(np.array(ratios).T, 1e-6)),
            _gathers(of, graph_features, machine),
            columns[:, [_COLUMN[name] for name in _PLAIN]],
            np.broadcast_to(shared, (rows, len(shared))),
        ),
        axis=1,
        dtype=np.float32,
    )
    return features, seconds


def _gathers(
    of: dict[str, np.ndarray], graph_features: np.ndarray, machine: MachineModel
) -> np.ndarray:
    """The shares of gathers that miss each cache, and of those of pairs, float64 [rows, 3]."""
    gathers = np.maximum(of["gathers"], 1)
    row_bytes = np.maximum(of["gathered_bytes"] / gathers, 4)
    pairs = of["pair_gathers"] / gathers
    nodes = of["gathers"] / gathers - pairs
    held = np.array([[machine.own_bytes], [machine.shared_bytes]]) / row_bytes
    missing = nodes * missing_share(graph_features, "src", held)
    missing += pairs * missing_share(graph_features, "src_pair", held)
    return np.vstack((missing, pairs)).T
