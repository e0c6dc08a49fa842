"""What every cost model offers the choice of a variant; the roofline model as the first of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from hetune.variants.runtime.domain import Domain
from hetune.variants.runtime.gpu_roofline import (
    GpuModel,
    gpu_replay_seconds,
    gpu_roofline_seconds,
)
from hetune.variants.runtime.roofline import MachineModel, roofline_seconds
from hetune.variants.runtime.table import CandidateTable


@dataclass(frozen=True, slots=True, eq=False)
class CostEstimates:
    """Predictions for the variants of a table on a graph.

    Attributes:
        seconds: Of a run, float64 [variants].
        launches: Of each row of the table, float64 [rows]; 0 where it has nothing to do.
        prepare: Seconds of indexing and binding before the first run, float64 [variants].
        source: Who predicts, for a reader: "the roofline model".
        replays: Seconds of a run that is replayed as one CUDA graph, float64 [variants]; None on a
            CPU, where nothing is.
        default: The variant to take where predictions cannot tell it from a faster one; None: there
            is no such one.
        tie: The factor within which they cannot.
        agreed: Variants that another model, too, says are faster than the default, so that there is
            no tie; bool [variants]. None: there are no such ones.
        lacking: Kernel families for which the roofline model predicts instead.
        offered: Variants to choose from where they fit; bool [variants]. None: all are.
    """

    seconds: np.ndarray
    launches: np.ndarray
    prepare: np.ndarray
    source: str
    replays: np.ndarray | None = None
    default: int | None = None
    tie: float = 1.0
    agreed: np.ndarray | None = None
    lacking: tuple[str, ...] = ()
    offered: np.ndarray | None = None

    def comparable(self, costs: np.ndarray) -> np.ndarray:
        """Costs of variants, infinite for those that are not to be chosen."""
        return costs if self.offered is None else np.where(self.offered, costs, np.inf)

    def tie_with(self, position: int) -> float:
        """How many times as long as that variant the default may take, to be taken instead."""
        is_agreed = self.agreed is not None and self.agreed[position]
        return 1.0 if is_agreed else self.tie

    @property
    def predictors(self) -> str:
        """Who predicts, and who for which kernel families instead."""
        if not self.lacking:
            return self.source
        return f"{self.source} ({', '.join(self.lacking)}: the roofline model)"


class CostEstimator(Protocol):
    """Predicts times. It never fails for lack of knowledge: the roofline model is always there.

    Hashable, and can be referred to weakly: graphs keep its estimates as long as it is there. Equal
    ones give equal estimates.
    """

    @property
    def estimating_seconds(self) -> float:
        """What estimating a layer's variants on a new graph takes, about."""
        ...

    def estimate(self, table: CandidateTable, domain: Domain, threads: int) -> CostEstimates:
        """Predictions for all variants of a table on a graph."""
        ...

    def spread(self, table: CandidateTable, domain: Domain, threads: int) -> np.ndarray:
        """How far off predictions may be, either way: factors of at least 1, float64 [variants].

        Asked for only where variants may be tried out.
        """
        ...


@dataclass(frozen=True, slots=True, weakref_slot=True)
class RooflineEstimator:
    """Counts and the machine's limits alone. Preparation is taken to cost all variants the same.

    Attributes:
        machine: The CPU's limits.
        gpu: Those of the GPU, for variants that are made for one.
        estimating_seconds: What estimating takes, about.
    """

    machine: MachineModel = field(default_factory=MachineModel)
    gpu: GpuModel = field(default_factory=GpuModel)
    estimating_seconds: float = 0.5e-3

    def estimate(self, table: CandidateTable, domain: Domain, threads: int) -> CostEstimates:
        """Predictions for all variants of a table on a graph."""
        columns, runs = table.columns(domain), table.runs(domain)
        replays = offered = None
        if table.device == "cuda":
            launches = gpu_roofline_seconds(columns, self.gpu) * runs
            replays = replay_seconds(table, columns, launches, self.gpu)
        else:
            launches = roofline_seconds(columns, self.machine, threads) * runs
            offered = table.offered(columns, self.machine)
        nothing = np.zeros(len(table.variants))
        return CostEstimates(
            table.totals(launches),
            launches,
            nothing,
            "the roofline model",
            replays,
            offered=offered,
        )

    def spread(self, table: CandidateTable, domain: Domain, threads: int) -> np.ndarray:
        """Counts know little of the truth: a quarter either way, for every variant."""
        return np.full(len(table.variants), 1.25)


def replay_seconds(
    table: CandidateTable,
    columns: np.ndarray,
    launches: np.ndarray,
    gpu: GpuModel,
) -> np.ndarray:
    """What runs should take that are replayed as one CUDA graph: seconds, float64 [variants].

    Args:
        table: Of variants for a GPU.
        columns: The table's on a graph.
        launches: Seconds of its rows where the host starts their kernels, float64 [rows]; 0 where
            it starts none.
        gpu: The card's rates.
    """
    parts = np.where(launches > 0, gpu_replay_seconds(columns, launches, gpu), 0.0)
    return table.totals(parts) + gpu.launch_seconds  # which starting the graph takes, too
