"""The variants of a layer, with what they should take and hold on a graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from hetune.variants.errors import MemoryLimitError
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.state import GraphSlot
from hetune.variants.graph.threads import kernel_threads
from hetune.variants.plan.variants import Variant, device_of
from hetune.variants.runtime.cost_estimates import CostEstimates, CostEstimator
from hetune.variants.runtime.domain import Domain
from hetune.variants.runtime.memory import layout_of
from hetune.variants.runtime.table import CandidateTable
from hetune.variants.runtime.weight_products import weight_product_seconds

RECORDING_RUNS = 3
"""What recording takes, in runs: two that wait whether there is a third, and its own time."""

RECORDING_GAIN = 1.2
"""How many times as fast replays have to be to be chosen: they keep for good what a run needs."""

_HOLDS = GraphSlot[tuple[str, int], tuple[int, int]]()
_ESTIMATES = GraphSlot[tuple[int, tuple[str, ...]], CostEstimates]()


@dataclass(frozen=True, slots=True)
class Candidate:
    """A variant on a graph.

    Attributes:
        id: The variant.
        plan: The name of its plan, which variants in other schedules share.
        seconds: Predicted time of a run whose kernels the host starts one by one.
        peak_bytes: What temporaries, scratch of all threads and result of such a run take; exact.
            Features, weights, those folded from others among them, and the graph with its indexes
            are not counted.
        replay_seconds: Predicted time of one that is replayed as a CUDA graph; None on a CPU.
    """

    id: str
    plan: str
    seconds: float
    peak_bytes: int
    replay_seconds: float | None = None


class Scored:
    """Variants with their estimates on a graph. Keeps the graph alive: never cached on it."""

    def __init__(
        self, table: CandidateTable, graph: HeteroGraph, domain: Domain, estimates: CostEstimates
    ) -> None:
        self.table, self.graph, self.domain, self.estimates = table, graph, domain, estimates
        self.ids = [variant.id for variant in table.variants]

    def candidate(self, position: int) -> Candidate:
        """The variant at a position of the table."""
        replays = self.estimates.replays
        return Candidate(
            self.ids[position],
            self.table.variants[position].plan_id,
            float(self.estimates.seconds[position]),
            self.peak_bytes(position),
            None if replays is None else float(replays[position]),
        )

    def is_offered(self, variant: str) -> bool:
        """Whether a variant may be chosen where others fit."""
        offered = self.estimates.offered
        return offered is None or bool(offered[self.table.place_of[variant]])

    def seconds(self, replays: bool) -> np.ndarray:
        """Of runs, or of replays, by variant."""
        found = self.estimates.replays if replays else None
        return self.estimates.seconds if found is None else found

    def peak_bytes(self, position: int, replays: bool = False) -> int:
        """What a run holds, and what a recording of others keeps beside that."""
        variant = self.table.variants[position]

        def holds() -> tuple[int, int]:
            layout = layout_of(variant.plan, variant.schedules, self.domain)
            return layout.peak_bytes, layout.run_bytes

        peak, kept = self.graph.state.of(_HOLDS, (variant.key, kernel_threads()), holds)
        return peak + replays * kept

    def fits(self, position: int, memory_limit: int | None, replays: bool = False) -> bool:
        """Whether a variant's runs, or its recording, hold no more than that."""
        return memory_limit is None or self.peak_bytes(position, replays) <= memory_limit

    def best(
        self,
        memory_limit: int | None,
        expected_runs: float,
        cuda_graph: bool | None,
        prepared: str | None = None,
    ) -> tuple[int, bool]:
        """The best variant's position, and whether it is to be replayed.

        What all variants need to be prepared is no reason to choose any of them. The default
        variant is taken unless another one is predicted to be faster by more than predictions can
        tell. One that is not offered is taken only if no other fits.

        Raises:
            MemoryLimitError: None fits.
        """
        prepare = self.estimates.prepare - self.estimates.prepare.min()
        if prepared is not None:
            prepare[self.ids.index(prepared)] = 0
        ways = self._ways(cuda_graph)
        costs = np.stack([self._cost(prepare, expected_runs, replays) for replays in ways])
        costs[1:] *= RECORDING_GAIN

        def fits(place: tuple[int, int]) -> bool:
            way, position = place
            return self.fits(position, memory_limit, ways[way])

        ranked = self.estimates.comparable(costs)
        by_cost = np.lexsort((costs.ravel(), ranked.ravel())).tolist()
        best = next(filter(fits, (divmod(place, len(self.ids)) for place in by_cost)), None)
        if best is not None:
            instead = self.estimates.default
            default = [] if instead is None else [(way, instead) for way in range(len(ways))]
            bound = self.estimates.tie_with(best[1]) * costs[best]
            tied = [place for place in default if ranked[place] <= bound and fits(place)]
            way, position = min(tied, key=costs.__getitem__, default=best)
            return position, ways[way]
        holds = [self.peak_bytes(position, ways[0]) for position in range(len(self.ids))]
        raise MemoryLimitError(
            f"every variant needs more than the limit of {memory_limit} bytes: the smallest, "
            f"{self.ids[holds.index(min(holds))]}, needs {min(holds)}; raise memory_limit to at "
            "least that",
            min(holds),
        )

    def _ways(self, cuda_graph: bool | None) -> tuple[bool, ...]:
        if self.estimates.replays is None:
            return (False,)
        return (False, True) if cuda_graph is None else (cuda_graph,)

    def _cost(self, prepare: np.ndarray, expected_runs: float, replays: bool) -> np.ndarray:
        once = prepare + replays * RECORDING_RUNS * self.estimates.seconds
        found: np.ndarray = self.seconds(replays) + once / expected_runs
        return found


def scored_on(
    variants: tuple[Variant, ...],
    graph: HeteroGraph,
    estimator: CostEstimator,
    weights_change: bool = False,
) -> Scored:
    """What variants run on a graph, with its estimates, kept there while the estimator is.

    Args:
        variants: What there is to choose from.
        graph: What to run on.
        estimator: Who predicts.
        weights_change: Whether each run computes again what is computed of weights alone.
    """
    domain, threads = domain_of(variants, graph), kernel_threads()
    table = CandidateTable.of(variants, domain.side)
    key = threads, _keys(variants)
    estimates = graph.state.of(
        _ESTIMATES, key, lambda: estimator.estimate(table, domain, threads), owner=estimator
    )
    if weights_change:
        estimates = _with_weights(estimates, table, graph, threads)
    return Scored(table, graph, domain, estimates)


def _with_weights(
    estimates: CostEstimates, table: CandidateTable, graph: HeteroGraph, threads: int
) -> CostEstimates:
    """Estimates of runs each of which computes its weights."""
    more = np.array([weight_product_seconds(v.plan, graph, threads) for v in table.variants])
    replays = None if estimates.replays is None else estimates.replays + more
    return replace(estimates, seconds=estimates.seconds + more, replays=replays)


def domain_of(variants: Sequence[Variant], graph: HeteroGraph) -> Domain:
    """The graph, with the indexes that the variants' device needs anyway."""
    return Domain(graph, graph.device if device_of(variants) == "cuda" else None)


def _keys(variants: Sequence[Variant]) -> tuple[str, ...]:
    return tuple(variant.key for variant in variants)
