"""What cost models see of a launch on a GPU: its counts, the graph's shape, the card's limits."""

from __future__ import annotations

import numpy as np

from hetune.costmodel.features.graph import NAMES as GRAPH_NAMES
from hetune.costmodel.features.graph import missing_share
from hetune.variants.runtime.gpu_roofline import (
    GpuModel,
    gpu_roofline_parts,
    gpu_roofline_seconds,
)
from hetune.variants.runtime.launch_columns import column_names
from hetune.variants.runtime.roofline import PARTS

COLUMNS = column_names("cuda")
"""Names of the numbers that features are made of."""
_COLUMN = {name: position for position, name in enumerate(COLUMNS)}
_ELEMENT = 4
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
    "gemm_rows",
    "edge_visits",
)
_PLAIN = ("kernels", "starts", "gemms", "segment_sums", "k", "n")
_GRAPH = (
    "in_degree_mean",
    "in_degree_gini",
    "in_degree_hub_share",
    "in_degree_top_share",
    "out_degree_top_share",
    "etypes_per_destination",
    "relation_edges_gini",
    "effective_relations",
    "near_gathers",
)
_RATIOS = (
    "tiles",
    "tile_waves",
    "tile_rows",
    "tile_columns",
    "warps",
    "rows_per_tile",
    "flops_per_weight_byte",
    "walks",
    "walk_waves",
    "walk_elements",
    "walk_edges",
    "edges_per_walk",
    "bytes_per_program",
    "gathered_row_bytes",
    "gathers_per_read",
    "flops_per_byte",
    "table_in_cache",
    "weights_in_cache",
    "scratch_in_cache",
    "working_set_in_cache",
)
_GRAPH_POSITIONS = [GRAPH_NAMES.index(name) for name in _GRAPH]

NAMES = (
    "roofline_seconds",
    *(f"{name}_share" for name in PARTS),
    *_AMOUNTS,
    *_RATIOS,
    "gathers_missing_cache",
    *_PLAIN,
    *_GRAPH,
)
"""Names of a launch's features on a GPU. Times, amounts and ratios are natural logarithms.

- `roofline_seconds`: what the roofline model of GPUs predicts; `..._share`: the part of it that
  each of its `PARTS` makes, 0 to 1;
- amounts: columns of the candidate table, as log(1 + amount);
- `tiles`, `walks`: programs of typed products and of traversals; `..._waves`: how many times they
  fill the card; `rows_per_tile`, `edges_per_walk`, `bytes_per_program`: what one of
  them has to do; `tile_rows`, `tile_columns`, `warps`, `walk_elements`, `walk_edges`: as scheduled,
  where the launch has such programs;
- `flops_per_weight_byte`: how often a weight is used; `gathered_row_bytes`; `gathers_per_read`:
  bytes gathered per distinct byte read; `flops_per_byte`: operations per compulsory byte;
- `..._in_cache`: a working set as a share of the L2 cache: the rows gathered from, the edge types'
  weights, scratch, and all that is read and written;
- `gathers_missing_cache`: the share of gathers whose row that cache would not hold, 0 to 1;
- the structure of the launch, and features of the graph.
"""

INCREASING = frozenset({"roofline_seconds", *_AMOUNTS})
"""Features in which time cannot fall."""


def gpu_launch_features(
    columns: np.ndarray, graph_features: np.ndarray, gpu: GpuModel
) -> tuple[np.ndarray, np.ndarray]:
    """The features of launches on a graph, and the roofline model's seconds, one of them.

    Args:
        columns: `CandidateTable.columns` of a table for GPUs, float64 [rows, `COLUMNS`].
        graph_features: `graph_features` of the graph, float64.
        gpu: The card's rates.

    Returns:
        float32 [rows, `NAMES`], finite; and float64 [rows].
    """
    of = {name: columns[:, position] for name, position in _COLUMN.items()}
    parts = gpu_roofline_parts(columns, gpu)
    busy = np.maximum(parts.sum(axis=1, keepdims=True), 1e-12)
    graph = np.broadcast_to(graph_features[_GRAPH_POSITIONS], (len(columns), len(_GRAPH)))
    seconds = gpu_roofline_seconds(columns, gpu, parts)
    features = np.concatenate(
        (
            np.log(seconds)[:, None],
            parts / busy,
            np.log1p(columns[:, [_COLUMN[name] for name in _AMOUNTS]]),
            np.log(np.maximum(_ratios(of, gpu), 1e-6)),
            _misses(of, graph_features, gpu)[:, None],
            columns[:, [_COLUMN[name] for name in _PLAIN]],
            graph,
        ),
        axis=1,
        dtype=np.float32,
    )
    return features, seconds


def _ratios(of: dict[str, np.ndarray], gpu: GpuModel) -> np.ndarray:
    """Before their logarithms are taken, float64 [rows, `_RATIOS`]."""
    compulsory = of["read_bytes"] + of["write_bytes"] + of["index_bytes"]
    flops = of["matrix_flops"] + of["vector_flops"] + of["special"]
    edges_per_walk = of["edge_visits"] / np.maximum(of["walks"], 1)
    multiplies, walks = of["gemms"] > 0, of["kernels"] > of["gemms"]
    return np.column_stack(
        (
            of["tiles"],
            of["tiles"] / gpu.programs,
            of["tile_rows"] * multiplies,
            of["tile_columns"] * multiplies,
            of["warps"] * multiplies,
            of["gemm_rows"] / np.maximum(of["tiles"], 1),
            of["matrix_flops"] / np.maximum(of["weight_bytes"], _ELEMENT),
            of["walks"],
            of["walks"] / gpu.programs,
            of["walk_elements"] * walks,
            of["walk_edges"] * walks,
            edges_per_walk,
            of["touched_bytes"] / np.maximum(of["tiles"] + of["walks"], 1),
            of["gathered_bytes"] / np.maximum(of["gathers"], 1),
            of["gathered_bytes"] / np.maximum(of["read_bytes"], 1),
            flops / np.maximum(compulsory, 1),
            of["table_bytes"] / gpu.cache_bytes,
            of["weight_bytes"] / gpu.cache_bytes,
            of["scratch_bytes"] / gpu.cache_bytes,
            compulsory / gpu.cache_bytes,
        )
    )


def _misses(of: dict[str, np.ndarray], graph_features: np.ndarray, gpu: GpuModel) -> np.ndarray:
    """The share of gathers that miss the L2 cache, float64 [rows]."""
    gathers = np.maximum(of["gathers"], 1)
    held = gpu.cache_bytes / np.maximum(of["gathered_bytes"] / gathers, _ELEMENT)
    pairs = of["pair_gathers"] / gathers
    nodes = of["gathers"] / gathers - pairs
    missing = nodes * missing_share(graph_features, "src", held)
    found: np.ndarray = missing + pairs * missing_share(graph_features, "src_pair", held)
    return found
