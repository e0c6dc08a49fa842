"""`launch_features` in NumPy: the same numbers but for rounding."""

import numpy as np

from hetune.costmodel.features.graph import NAMES as GRAPH_NAMES
from hetune.costmodel.features.graph import missing_share
from hetune.costmodel.features.launch import _AMOUNTS, _PLAIN, OF_GRAPH
from hetune.variants.runtime.launch_columns import COLUMNS
from hetune.variants.runtime.roofline import MachineModel, roofline_parts, roofline_seconds

_COLUMN = {name: position for position, name in enumerate(COLUMNS)}
_GRAPH_POSITIONS = [GRAPH_NAMES.index(name) for name in OF_GRAPH]


def computed_by_numpy(
    columns: np.ndarray, graph_features: np.ndarray, machine: MachineModel, threads: int
) -> tuple[np.ndarray, np.ndarray]:
    """As `launch_features`."""
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
