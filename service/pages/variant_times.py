"""Predicted against measured: the variants that there are to choose from, run side by side."""

from __future__ import annotations

import time
from dataclasses import dataclass

from hetune.service.core.inference.answers import CandidateReport, LayerReport, RunReport
from hetune.service.core.models.models import Model
from hetune.service.core.service import Service
from hetune.service.pages.examples import draw_inputs
from hetune.variants.errors import DeadlineError
from hetune.variants.graph.hetero import HeteroGraph

MOST_VARIANTS = 8
"""Of each layer."""
RUNS = 4
SECONDS = 10.0
"""After so long no further run begins."""


@dataclass(frozen=True, slots=True)
class Compared:
    """A variant that a layer could run by.

    Attributes:
        variant: Its id.
        predicted: Seconds.
        measured: Median of the last runs in seconds; None if it has not run, or but once.
        runs: How many runs that is the median of.
        peak_bytes: Of a run's temporaries, scratch and result.
        is_chosen: Whether it is the one.
    """

    variant: str
    predicted: float
    measured: float | None
    runs: int
    peak_bytes: int
    is_chosen: bool

    @property
    def ratio(self) -> float | None:
        """Measured over predicted."""
        return None if not self.measured else self.measured / self.predicted


@dataclass(frozen=True, slots=True)
class LayerView:
    """A layer's choice, and all that there was to choose from, the fastest prediction first."""

    report: LayerReport
    variants: tuple[Compared, ...]

    @property
    def first(self) -> tuple[Compared, ...]:
        """What was chosen or measured, and what was predicted to be about as fast."""
        fastest = self.variants[:MOST_VARIANTS]
        return tuple(v for v in self.variants if v.is_chosen or v.runs or v in fastest)

    @property
    def others(self) -> tuple[Compared, ...]:
        """The rest."""
        return tuple(v for v in self.variants if v not in self.first)

    @property
    def slowest(self) -> float:
        """The longest time of all, which bars are drawn against."""
        times = [(v.predicted, v.measured or 0.0) for v in self.variants]
        return max((max(pair) for pair in times), default=0.0)


def layer_views(model: Model, graph: HeteroGraph, report: RunReport) -> tuple[LayerView, ...]:
    """What was chosen for each layer beside what else there was, with times of earlier runs.

    Args:
        model: What would run.
        graph: What on.
        report: The choice, explained.
    """
    return tuple(
        LayerView(layer, _compared(model, number, graph, layer))
        for number, layer in enumerate(report.layers)
    )


def measure(service: Service, model: Model, graph: str) -> int:
    """Runs a model on drawn features, by the fastest variants of each layer in turn, some times.

    Ends after a while, between runs. Times are remembered with the model and the graph.

    Returns:
        How many runs there were.

    Raises:
        NotFoundError: There is no such graph.
        InputError: It is none for this model.
        MemoryLimitError: No variant fits the limit.
        TooLargeError: Features or outputs would be over it.
    """
    until = time.monotonic() + SECONDS
    report = service.selection.select(model, graph, explain=True)
    given = service.graphs.get(graph)
    features, inputs = draw_inputs(model, given, service.limits)
    rounds = [
        tuple(_candidate(layer, place, service.limits.run_bytes) for layer in report.layers)
        for place in range(MOST_VARIANTS)
    ]
    done = 0
    try:
        for variants in list(dict.fromkeys(rounds)) * RUNS:  # interleaved
            service.inference.run(
                model, graph, features, inputs=inputs, variants=variants, deadline=until
            )
            done += 1
    except DeadlineError:
        pass
    return done


def _candidate(layer: LayerReport, place: int, limit: int) -> str:
    """The id of a layer's candidate; of its choice where there are no more that fit."""
    assert layer.explanation is not None
    fitting = [c.variant for c in layer.explanation.candidates if c.peak_bytes <= limit]
    ids = [layer.variant, *(variant for variant in fitting if variant != layer.variant)]
    return ids[place] if place < len(ids) else layer.variant


def _compared(
    model: Model, number: int, graph: HeteroGraph, layer: LayerReport
) -> tuple[Compared, ...]:
    assert layer.explanation is not None
    runs = model.compiled[number].use_of(graph).times

    def compared(candidate: CandidateReport) -> Compared:
        known = runs.get(candidate.variant)
        return Compared(
            candidate.variant,
            candidate.predicted_seconds,
            None if known is None else known.median,
            0 if known is None else len(known.seconds),
            candidate.peak_bytes,
            candidate.variant == layer.variant,
        )

    return tuple(map(compared, layer.explanation.candidates))
