"""The analytic cost model: what a launch should take, from counts and the machine's limits.

It answers until models are trained on measurements, and is what they correct. A launch takes the
time of its arithmetic plus that of its traffic, each at the rate of the level of memory that its
rows fit in; threads share blocks of nodes; no node's edges are split.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hetune.variants.runtime.launch_columns import COLUMNS

_LINE = 64
_COLUMN = {name: position for position, name in enumerate(COLUMNS)}


@dataclass(frozen=True, slots=True)
class MachineModel:
    """Rates of one core, and sizes of caches.

    The defaults were set by hand, after times of all variants of the three layers on aifb, mutag,
    FB15k-237, mag and a drawn biokg on one server. Only their proportions decide a choice.

    Attributes:
        matrix_flops: Floating-point operations of matrix products per second.
        vector_flops: Those of elementwise code.
        special: exp, division and the like per second.
        own_bytes: Size of a core's own cache.
        shared_bytes: Size of the last-level cache.
        own_rate: Bytes per second from a core's own cache.
        shared_rate: From the last-level cache.
        memory_rate: From memory.
        exchange_seconds: Fetching a cache line that another core has just written, beyond what one
            of its own takes; 0 where that is not known.
        launch_seconds: Starting and ending a parallel region.
        unevenness: How much longer threads with a single block each take than their share: the
            slower one is waited for. With more blocks a thread, it fades with their square.
    """

    matrix_flops: float = 110e9
    vector_flops: float = 24e9
    special: float = 1.2e9
    own_bytes: int = 1 << 20
    shared_bytes: int = 32 << 20
    own_rate: float = 110e9
    shared_rate: float = 42e9
    memory_rate: float = 17e9
    exchange_seconds: float = 16e-9
    launch_seconds: float = 6e-6
    unevenness: float = 0.25

    def rates(self, working_set: np.ndarray) -> np.ndarray:
        """Bytes per second of rows picked from sets of so many bytes."""
        found: np.ndarray = np.where(
            working_set <= self.own_bytes / 2,
            self.own_rate,
            np.where(working_set <= self.shared_bytes / 2, self.shared_rate, self.memory_rate),
        )
        return found

    def offers(self, scores_edges: np.ndarray, table_bytes: np.ndarray) -> np.ndarray:
        """Which variants may be chosen; bool [variants].

        Scores on edges save a pass over rows of sources for a dot product on every edge. That pays
        where these rows come from memory; elsewhere both models overrate it.

        Args:
            scores_edges: `PlanChoices.scores_edges` of each; bool [variants].
            table_bytes: That column, summed over the launches of each; float64 [variants].
        """
        found: np.ndarray = ~scores_edges | (table_bytes > self.shared_bytes)
        return found

    def exchanged(
        self, gathered: np.ndarray, table: np.ndarray, pairs: np.ndarray, threads: int
    ) -> np.ndarray:
        """Seconds that all cores together spend on fetching rows from each other's caches.

        Rows of source pairs were written just before, each by the core that had its turn, and every
        core fetches those of the others once.

        Args:
            gathered: Bytes of rows that are gathered.
            table: Distinct bytes that they are picked from.
            pairs: The share of gathers that reads rows of source pairs.
            threads: How many cores there are.
        """
        lines = pairs * np.minimum(table, gathered / threads) / _LINE
        kept = table <= self.shared_bytes / 2  # else they come from memory
        found: np.ndarray = kept * lines * (threads - 1) * self.exchange_seconds
        return found


PARTS = ("matrix", "vector", "special", "gather", "stream", "scratch", "weights", "scatter")
"""What a launch's time is made of: three kinds of arithmetic, and traffic by what is moved.

Gathering includes what cores fetch from each other (`MachineModel.exchanged`).
"""


def roofline_parts(columns: np.ndarray, machine: MachineModel, threads: int) -> np.ndarray:
    """Seconds that one core would spend on each part of launches, float64 [rows, `PARTS`].

    Args:
        columns: `CandidateTable.columns`, float64 [rows, `COLUMNS`].
        machine: Rates of a core.
        threads: How many share a launch's blocks.
    """
    of = dict(zip(COLUMNS, columns.T, strict=True))
    table = np.minimum(of["read_bytes"], of["table_bytes"])
    streamed = of["read_bytes"] + of["write_bytes"] + of["index_bytes"] - table
    scratch, scattered = of["scratch_bytes"], of["scatter_bytes"]
    moved = of["gathered_bytes"], streamed, scratch, of["weight_loads"], 2 * scattered
    sets = table, streamed, scratch / of["blocks"], of["weight_bytes"], scattered / of["blocks"]
    arithmetic = (
        of["matrix_flops"] / machine.matrix_flops,
        of["vector_flops"] / machine.vector_flops,
        of["special"] / machine.special,
    )
    traffic = np.array(moved) / machine.rates(np.array(sets))
    pairs = of["pair_gathers"] / np.maximum(of["gathers"], 1)
    traffic[0] += machine.exchanged(of["gathered_bytes"], of["table_bytes"], pairs, threads)
    return np.concatenate((arithmetic, traffic)).T


def roofline_seconds(
    columns: np.ndarray, machine: MachineModel, threads: int, parts: np.ndarray | None = None
) -> np.ndarray:
    """What launches should take.

    Args:
        columns: `CandidateTable.columns`, float64 [rows, `COLUMNS`].
        machine: Rates of a core.
        threads: How many share a launch's blocks.
        parts: Their `roofline_parts`, where they are known.

    Returns:
        Seconds, float64 [rows]; never 0.
    """
    parts = roofline_parts(columns, machine, threads) if parts is None else parts
    busy = parts.sum(axis=1)
    seconds: np.ndarray = busy * _share(columns, machine, threads) + machine.launch_seconds
    return seconds


def _share(columns: np.ndarray, machine: MachineModel, threads: int) -> np.ndarray:
    """The part of all work that the slowest thread does."""
    blocks, unblocked = columns[:, _COLUMN["blocks"]], columns[:, _COLUMN["unblocked"]]
    rounds = np.ceil(blocks / threads) / blocks
    waiting = 1 + machine.unevenness * (threads / blocks) ** 2 if threads > 1 else 1.0
    return np.where(unblocked > 0, 1 / threads, rounds * waiting)
