"""Choosing a variant for a graph, and saying why."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import SupportsIndex

from hetune.variants.errors import InputError, VariantError
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.threads import kernel_threads
from hetune.variants.plan.variants import Variant
from hetune.variants.runtime.bound_run import BoundRun
from hetune.variants.runtime.cost_estimates import CostEstimator
from hetune.variants.runtime.scored import RECORDING_GAIN, Candidate, Scored, scored_on


@dataclass(frozen=True)
class Choice:
    """What would run, and what else there was. Printed, it is a table.

    Attributes:
        id: The chosen variant.
        reason: Why.
        seconds: Predicted time of a run of the chosen variant.
        memory_limit: The limit that applied, in bytes.
        expected_runs: Over how many runs preparation was spread; infinite if it did not count.
        cuda_graph: Whether runs are to be replayed as one CUDA graph. The time is that of a replay.
        threads: That runs were predicted for.
        scored: What it was chosen from.
        backward: What the stages of its backward would run, where gradients are needed.
        held: Bytes of the features and weights that are kept for it, by name.
        computed_again: Values of the forward that the backward computes itself.
    """

    id: str
    reason: str
    seconds: float
    memory_limit: int | None
    expected_runs: float
    cuda_graph: bool
    threads: int
    scored: Scored = field(repr=False, compare=False)
    backward: tuple[Choice, ...] = field(default=(), repr=False, compare=False)
    held: Mapping[str, int] = field(default_factory=dict, repr=False, compare=False)
    computed_again: tuple[str, ...] = field(default=(), repr=False, compare=False)

    @cached_property
    def candidates(self) -> tuple[Candidate, ...]:
        """What variants run on the graph, each once, fastest prediction first.

        On a graph of one side, hybrid plans run the plan of that side.
        """
        found = map(self.scored.candidate, range(len(self.scored.ids)))
        return tuple(sorted(found, key=self._seconds))

    @property
    def chosen(self) -> Candidate:
        """The chosen candidate."""
        return self.candidate(self.id)

    def candidate(self, variant: str) -> Candidate:
        """What runs on the graph under the id of a variant.

        Raises:
            VariantError: No variant has this id.
        """
        places = self.scored.table.place_of
        check_variant(variant, places)
        return self.scored.candidate(places[variant])

    @property
    def source(self) -> str:
        """Who predicted, for a reader."""
        return self.scored.estimates.source

    @property
    def decision(self) -> Decision:
        """The choice without its graph."""
        peak = self.chosen.peak_bytes
        return Decision(self.id, self.reason, self.seconds, peak, self.threads, self.source)

    @property
    def launches(self) -> tuple[float, ...]:
        """Predicted seconds of each launch of the chosen variant, in order; 0 for what is left out.

        A launch is left out where the graph has no rows for it.
        """
        table = self.scored.table
        rows = table.rows_of[self.scored.ids.index(self.id)]
        return tuple(self.scored.estimates.launches[list(rows)].tolist())

    def _seconds(self, candidate: Candidate) -> float:
        """Of a run of the kind that was chosen."""
        if self.cuda_graph and candidate.replay_seconds is not None:
            return candidate.replay_seconds
        return candidate.seconds

    def __str__(self) -> str:
        width = max(len(c.id) for c in self.candidates)
        replays = any(c.replay_seconds is not None for c in self.candidates)
        head = f"{'variant':{width}}  predicted ms" + "  as one CUDA graph" * replays + "  peak MB"
        lines = [f"{self.id}: {self.reason}", "", head]
        for candidate in self.candidates:
            mark = " <- chosen" if candidate.id == self.id else ""
            if self.memory_limit is not None and candidate.peak_bytes > self.memory_limit:
                mark = " (over the memory limit)"
            elif not mark and not self.scored.is_offered(candidate.id):
                mark = " (pays where rows of sources fit no cache)"
            line = f"{candidate.id:{width}}  {candidate.seconds * 1e3:12.3f}"
            if candidate.replay_seconds is not None:
                line += f"  {candidate.replay_seconds * 1e3:17.3f}"
            lines.append(f"{line}  {candidate.peak_bytes / 1e6:7.1f}{mark}")
        if self.backward:
            kept = f"{', '.join(self.held) or 'nothing'} ({sum(self.held.values()) / 1e6:.1f} MB)"
            again = ", ".join(self.computed_again) or "nothing"
            lines += ["", f"kept for the backward: {kept}; computed again: {again}"]
        for i, stage in enumerate(self.backward, 1):
            lines += ["", f"backward, stage {i} of {len(self.backward)}", str(stage)]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Decision:
    """What is remembered of a `Choice`, which itself keeps the graph alive.

    Attributes:
        variant: Id of the chosen variant.
        reason: Why.
        seconds: Predicted time of a run.
        peak_bytes: What a run's temporaries, scratch and result take.
        threads: That runs were predicted for.
        source: Who predicted.
    """

    variant: str
    reason: str
    seconds: float
    peak_bytes: int
    threads: int
    source: str


@dataclass(frozen=True, slots=True)
class Chosen:
    """A variant, and how it is to run.

    Attributes:
        variant: What.
        cuda_graph: Whether its runs are to be replayed as one CUDA graph; None: nobody has asked.
        is_final: Whether other variants are not to be looked at or tried on this graph for now.
        seconds: Predicted time of a run; None: nobody has asked.
        bound: What runs it on the graph that it was chosen for, if nothing is left to look up.
    """

    variant: Variant
    cuda_graph: bool | None = None
    is_final: bool = True
    seconds: float | None = None
    bound: BoundRun | None = field(default=None, repr=False, compare=False)


def choose(
    variants: tuple[Variant, ...],
    graph: HeteroGraph,
    estimator: CostEstimator,
    *,
    memory_limit: int | None = None,
    expected_runs: float = math.inf,
    cuda_graph: bool | None = None,
    weights_change: bool = False,
) -> Choice:
    """The variant with the least predicted time among those that fit.

    Args:
        variants: What there is to choose from.
        graph: What to run on.
        estimator: Who predicts.
        memory_limit: Most bytes that a run's temporaries, scratch and result may take.
        expected_runs: Over how many runs indexing and binding are spread.
        cuda_graph: Whether runs are replayed as one CUDA graph; chosen along with the variant if
            None. Nothing is on a CPU.
        weights_change: Whether each run computes again what is computed of weights alone.

    Raises:
        InputError: There is no graph, the limit is no integer, or the runs are no positive number.
        MemoryLimitError: None fits.
    """
    check_demands(memory_limit, expected_runs)
    if not isinstance(graph, HeteroGraph):
        raise InputError(
            f"graph is a {type(graph).__name__}: give a HeteroGraph, as hetune.load, generate and "
            "from_pyg make them"
        )
    scored = scored_on(variants, graph, estimator, weights_change)
    best, replays = scored.best(memory_limit, expected_runs, cuda_graph)
    return Choice(
        scored.ids[best],
        _reason(scored, best, memory_limit, replays, expected_runs),
        float(scored.seconds(replays)[best]),
        memory_limit,
        expected_runs,
        replays,
        kernel_threads(),
        scored,
    )


def check_variant(variant: str, known: Collection[str]) -> None:
    """Raises `VariantError` unless it is the id of one of those that are known."""
    if variant not in known:
        raise VariantError(f"no variant {variant!r}: take one of {', '.join(known)}")


def check_demands(memory_limit: object = None, expected_runs: object = None) -> None:
    """Checks what a choice has to keep to.

    Raises:
        InputError: The limit is no integer, or the runs are no positive number.
    """
    if memory_limit is not None and not isinstance(memory_limit, SupportsIndex):
        raise InputError(f"memory_limit={memory_limit!r}: give an integer of bytes, or None")
    if expected_runs is None:
        return
    if not (isinstance(expected_runs, int | float) and expected_runs > 0):
        raise InputError(f"expected_runs={expected_runs!r}: give a positive number")


def chosen(
    variants: tuple[Variant, ...],
    graph: HeteroGraph,
    estimator: CostEstimator,
    *,
    memory_limit: int | None = None,
    expected_runs: float = math.inf,
    cuda_graph: bool | None = None,
    prepared: str | None = None,
    weights_change: bool = False,
) -> Chosen:
    """What `choose` finds, without the reasons.

    Args:
        variants: What there is to choose from.
        graph: What to run on.
        estimator: Who predicts.
        memory_limit: Most bytes that a run's temporaries, scratch and result may take.
        expected_runs: Over how many runs indexing and binding are spread.
        cuda_graph: As of `choose`.
        prepared: Id of a variant that has run on the graph and needs no preparation.
        weights_change: As of `choose`.

    Raises:
        MemoryLimitError: None fits.
    """
    scored = scored_on(variants, graph, estimator, weights_change)
    best, replays = scored.best(memory_limit, expected_runs, cuda_graph, prepared)
    seconds = float(scored.seconds(replays)[best])
    return Chosen(scored.table.variants[best], replays, seconds=seconds)


def contenders(
    variants: tuple[Variant, ...],
    graph: HeteroGraph,
    estimator: CostEstimator,
    *,
    memory_limit: int | None = None,
    most: int = 3,
) -> tuple[Variant, ...]:
    """The variants that may be fastest, given how far off predictions are; the best one first.

    What they take is that of runs whose kernels the host starts.
    """
    scored = scored_on(variants, graph, estimator)
    first, _ = scored.best(memory_limit, math.inf, cuda_graph=False)
    seconds = scored.estimates.seconds
    spread = estimator.spread(scored.table, scored.domain, kernel_threads())
    within = scored.estimates.comparable(seconds) / spread <= seconds[first] * spread[first]
    order = [i for i in seconds.argsort(kind="stable") if i != first and within[i]]
    fitting = [i for i in order if scored.fits(i, memory_limit)]
    return tuple(scored.table.variants[i] for i in (first, *fitting[: most - 1]))


def is_replayed(
    variant: Variant, graph: HeteroGraph, estimator: CostEstimator, memory_limit: int | None = None
) -> bool:
    """Whether a variant should be faster as one CUDA graph, and fit the limit as such."""
    scored = scored_on((variant,), graph, estimator)
    replays = scored.estimates.replays
    if replays is None or not scored.fits(0, memory_limit, replays=True):
        return False
    return bool(RECORDING_GAIN * replays[0] < scored.estimates.seconds[0])


def _reason(
    scored: Scored, best: int, memory_limit: int | None, replays: bool, expected_runs: float
) -> str:
    seconds = scored.seconds(replays)
    if scored.is_offered(scored.ids[best]):
        seconds = scored.estimates.comparable(seconds)
    source = scored.estimates.predictors
    where = "a GPU" if scored.table.device == "cuda" else _counted(kernel_threads(), "thread")
    where += " as one CUDA graph" * replays
    faster = (seconds < seconds[best]).nonzero()[0].tolist()
    fitting = [i for i in faster if scored.fits(i, memory_limit, replays)]
    if fitting and best == scored.estimates.default:
        first = min(fitting, key=seconds.__getitem__)
        if seconds[best] <= scored.estimates.tie_with(first) * seconds[first]:
            gain = seconds[best] / seconds[first]
            return (
                f"the default variant; predictions by {source} for {where} cannot tell it from "
                f"{scored.ids[first]}, {gain:.2f}x ahead"
            )
    if fitting:
        return (
            f"least predicted time by {source} for {where}, what is prepared for "
            f"{_counted(expected_runs, 'run')} included"
        )
    if faster:
        return (
            f"least predicted time of the variants within the memory limit; {len(faster)} faster "
            "ones need more"
        )
    plans = [variant.plan_id for variant in scored.table.variants]
    order = (i for i in seconds.argsort(kind="stable") if math.isfinite(seconds[i]))
    others = [i for i in order if plans[i] != plans[best]]
    if not others:
        return f"the only plan; predicted by {source} for {where}"
    gain = seconds[others[0]] / seconds[best] if seconds[best] else 1.0  # nothing to do at all
    return (
        f"least predicted time by {source} for {where}, {gain:.2f}x ahead of "
        f"the next plan, {plans[others[0]]}"
    )


def _counted(count: float, noun: str) -> str:
    return f"1 {noun}" if count == 1 else f"{count:g} {noun}s"
