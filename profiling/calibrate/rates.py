"""Measuring the numbers that the roofline model takes a machine for.

All threads work at once, as in a layer's run, and a rate is a thread's part.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import psutil
import torch
from numpy.typing import NDArray

from hetune.profiling.calibrate.caches import Caches, detect
from hetune.profiling.calibrate.probes import (
    ROW_BYTES,
    Probe,
    aggregation,
    exchange,
    exponentials,
    gather,
    launch,
    product,
    random_graph,
)
from hetune.profiling.calibrate.timing import time_probes
from hetune.profiling.measure.bench import torch_threads
from hetune.variants.runtime.roofline import MachineModel

ROUNDS = 100
"""How often everything is timed."""

_GATHERED_ROWS = 400_000
_EDGES = 200_000
_OPERATIONS_PER_BYTE = 0.5
"""Of a weighted sum of rows: a product and a sum for each float."""
_ZIPF = 0.8
"""The k-th most popular node has k^-0.8 of the first one's edges: degrees d with weight d^-2.25."""
_STEP = 4
"""Between the sizes of tables that are tried in the shared cache."""
_FASTER = 1.5
"""A table is in the shared cache if its rows come this much faster than from memory."""
_LEAST_TABLE, _MOST_TABLE = 64 << 20, 1 << 30


@dataclass(frozen=True, slots=True)
class Tables:
    """Sizes, in bytes, of the tables that rows are gathered from."""

    own: int
    shared: tuple[int, ...]
    memory: int

    @classmethod
    def of(cls, caches: Caches) -> Tables:
        """A quarter of a core's cache; half of the shared one and less; far more than that."""
        sizes = [caches.shared // 2]
        while sizes[-1] // _STEP >= caches.own:
            sizes.append(sizes[-1] // _STEP)
        free = psutil.virtual_memory().available // 4
        memory = min(max(8 * caches.shared, _LEAST_TABLE), _MOST_TABLE, free)
        return cls(max(caches.own // 4, ROW_BYTES), tuple(sizes), max(memory, sizes[0]))


def measure_machine(
    threads: int | None = None,
    *,
    rounds: int = ROUNDS,
    seconds: float = 10.0,
    caches: Caches | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> MachineModel:
    """The roofline model's numbers for this machine; takes a few seconds.

    Args:
        threads: How many work at once; torch's number if None.
        rounds: How often everything is timed.
        seconds: With fewer rounds if they would take longer, as on a machine that is busy.
        caches: Sizes of caches; what the system tells if None. If rows of a table of half the
            shared one come no faster than from memory, as on virtual machines that are told
            another's cache, it is taken to be smaller.
        progress: Called with how many rounds are done, and how many there are.

    Raises:
        CompileError: There is no compiler, or it refuses the loops.
    """
    threads = threads or torch.get_num_threads()
    caches = caches or detect()
    tables = Tables.of(caches)
    with torch_threads(threads):
        found = time_probes(_probes(tables, threads), rounds, seconds, progress)
    return machine_of(found, caches, tables, threads)


def _probes(tables: Tables, threads: int) -> dict[str, Probe]:
    rows = max(tables.own // ROW_BYTES, 1)
    rng = np.random.default_rng(0)
    table = torch.ones(tables.memory // ROW_BYTES, ROW_BYTES // 4, dtype=torch.float32)

    def drawn(size: int) -> Probe:
        count = size // ROW_BYTES
        picked = torch.from_numpy(_sources(count, rng))
        return gather(table[:count], picked, threads)

    in_order = torch.arange(_GATHERED_ROWS, dtype=torch.int32) % len(table)
    graph = random_graph(rows, _EDGES, 1)
    return {
        "matrix": product(64, random_graph(rows, _EDGES, 16)),
        "vector": aggregation(graph),
        "special": exponentials(random_graph(_EDGES // 16, _EDGES, 1)),
        "launch": launch(threads),
        "own": drawn(tables.own),
        **{f"shared {size}": drawn(size) for size in tables.shared},
        "memory": drawn(tables.memory),
        "memory in order": gather(table, in_order, threads),
        "kept": exchange(rows, threads, 0),
        "exchanged": exchange(rows, threads, 1),
    }


def _sources(rows: int, rng: np.random.Generator) -> NDArray[np.int32]:
    """Which rows edges name: those of a graph whose degrees follow a power law, in no order."""
    ranks = np.floor(rows * rng.random(_GATHERED_ROWS) ** (1 / (1 - _ZIPF))).astype(np.int64)
    places: NDArray[np.int32] = rng.permutation(rows).astype(np.int32)[ranks]
    return places


def machine_of(
    seconds: Mapping[str, float], caches: Caches, tables: Tables, threads: int
) -> MachineModel:
    """The roofline model's numbers, from seconds for each unit of every probe on all threads."""

    def rate(name: str) -> float:
        return 1 / (seconds[name] * threads)

    within = [
        size for size in tables.shared if seconds[f"shared {size}"] * _FASTER <= seconds["memory"]
    ] or [tables.shared[-1]]
    # A graph's rows are gathered in parts, and streamed in parts: there is one rate for both.
    memory = 2 / ((seconds["memory"] + seconds["memory in order"]) * threads)
    shared = len(within) / (sum(seconds[f"shared {size}"] for size in within) * threads)
    own = max(rate("own"), shared)
    exchanged = max(seconds["exchanged"] - seconds["kept"], 0.0) if threads > 1 else 0.0
    return MachineModel(
        matrix_flops=rate("matrix"),
        vector_flops=rate("vector") * _OPERATIONS_PER_BYTE,
        special=rate("special"),
        own_bytes=caches.own,
        shared_bytes=max(2 * within[0], caches.own),
        own_rate=own,
        shared_rate=min(shared, own),
        memory_rate=min(memory, shared),
        exchange_seconds=exchanged,
        launch_seconds=seconds["launch"],
    )
