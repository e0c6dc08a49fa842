"""The analytic cost model of a GPU: what a launch should take, from counts and the card's rates.

It answers until models are trained on measurements of a card. A kernel takes its arithmetic, its
traffic, which waits for arithmetic as often as not, and starting it; a card that has fewer programs
than it could run is used in part.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hetune.variants.runtime.gpu_columns import GPU_COLUMNS
from hetune.variants.runtime.launch_columns import COLUMNS

_COLUMN = {name: position for position, name in enumerate((*COLUMNS, *GPU_COLUMNS))}
_LEAST_SHARE = 0.02
"""Of a card that a single program uses: its clock, and latency that nothing hides."""


@dataclass(frozen=True, slots=True)
class GpuModel:
    """Rates of a whole card, and its cache.

    The defaults are an H100's in a virtual machine: products and copies as `make gpu-check` has
    them, starting kernels and reading from the cache as they fit its times best (ADR 12), and the
    others of the order of a data sheet's. Only their proportions decide a choice.

    Attributes:
        matrix_flops: Floating-point operations of matrix products per second, in float32 without
            tensor cores.
        vector_flops: Those of elementwise code.
        special: exp, division and the like per second.
        cache_bytes: Size of the L2 cache.
        cache_rate: Bytes per second from it.
        memory_rate: Bytes per second from memory.
        launch_seconds: Starting a kernel.
        node_seconds: Starting one that is part of a CUDA graph.
        programs: How many programs keep the card busy.
    """

    matrix_flops: float = 51e12
    vector_flops: float = 20e12
    special: float = 4e12
    cache_bytes: int = 48 << 20
    cache_rate: float = 4.5e12
    memory_rate: float = 2.8e12
    launch_seconds: float = 16e-6
    node_seconds: float = 1.5e-6
    programs: int = 528

    def rates(self, working_set: np.ndarray) -> np.ndarray:
        """Bytes per second of rows picked from sets of so many bytes."""
        found: np.ndarray = np.where(
            working_set <= self.cache_bytes / 2, self.cache_rate, self.memory_rate
        )
        return found


def gpu_roofline_parts(columns: np.ndarray, gpu: GpuModel) -> np.ndarray:
    """Seconds that a busy card would spend on each part of launches.

    Args:
        columns: `CandidateTable.columns` of variants for a GPU, float64 [rows, columns].
        gpu: The card's rates.

    Returns:
        Seconds, float64 [rows, `roofline.PARTS`].
    """
    of = {name: columns[:, position] for name, position in _COLUMN.items()}
    table = np.minimum(of["read_bytes"], of["table_bytes"])
    streamed = of["read_bytes"] + of["write_bytes"] + of["index_bytes"] - table
    loads = _weight_loads(of)
    return np.column_stack(
        (
            of["matrix_flops"] / gpu.matrix_flops,
            of["vector_flops"] / gpu.vector_flops,
            of["special"] / gpu.special,
            of["gathered_bytes"] / gpu.rates(table),
            streamed / gpu.memory_rate,
            of["scratch_bytes"] / gpu.rates(of["scratch_bytes"] / 2),
            loads / gpu.rates(of["weight_bytes"]),
            2 * of["scatter_bytes"] / gpu.rates(of["write_bytes"]),
        )
    )


def gpu_roofline_seconds(
    columns: np.ndarray, gpu: GpuModel, parts: np.ndarray | None = None
) -> np.ndarray:
    """What launches should take: seconds, float64 [rows]; never 0.

    Args:
        columns: As of `gpu_roofline_parts`.
        gpu: The card's rates.
        parts: Their `gpu_roofline_parts`, where they are known.
    """
    of = {name: columns[:, position] for name, position in _COLUMN.items()}
    parts = gpu_roofline_parts(columns, gpu) if parts is None else parts
    programs = np.maximum(of["tiles"] + of["walks"], 1)
    share = np.clip(programs / gpu.programs, _LEAST_SHARE, 1.0)
    # The last wave of programs is waited for, however few it has.
    waves = np.ceil(programs / gpu.programs) / np.maximum(programs / gpu.programs, 1.0)
    busy = parts.sum(axis=1) * waves / share
    seconds: np.ndarray = busy + of["starts"] * gpu.launch_seconds
    return seconds


def gpu_replay_seconds(columns: np.ndarray, seconds: np.ndarray, gpu: GpuModel) -> np.ndarray:
    """What launches should take as parts of a CUDA graph: seconds, float64 [rows]; never 0.

    Args:
        columns: As of `gpu_roofline_parts`.
        seconds: What they take when the host starts their kernels, float64 [rows].
        gpu: The card's rates.
    """
    starts = columns[:, _COLUMN["starts"]]
    saved = starts * (gpu.launch_seconds - gpu.node_seconds)
    found: np.ndarray = np.maximum(seconds - saved, starts * gpu.node_seconds)
    return found


def _weight_loads(of: dict[str, np.ndarray]) -> np.ndarray:
    """Bytes of weights that tiles load: each those of its type and columns."""
    groups = np.maximum(of["weight_groups"], 1)
    columns = np.maximum(np.ceil(of["n"] / np.maximum(of["tile_columns"], 1)), 1)
    each = of["weight_bytes"] / groups / columns
    found: np.ndarray = np.where(of["gemms"] > 0, of["tiles"] * each, 0.0)
    return found
