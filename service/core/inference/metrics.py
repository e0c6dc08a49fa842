"""What a service counts and times, for Prometheus."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cache

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric

from hetune.costmodel.selection.champion import ChampionFollower
from hetune.profiling.jobs.records import State
from hetune.service.core.graphs.graphs import GraphStore
from hetune.service.core.inference.answers import LayerReport
from hetune.service.core.inference.gauges import add_gauges
from hetune.service.core.models.engine import Engine
from hetune.service.core.models.models import ModelStore

_SECONDS = (
    *(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05),
    *(0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 50.0),
)
_RATIOS = (1.0, 1.01, 1.02, 1.05, 1.1, 1.2, 1.35, 1.5, 2.0, 3.0, 5.0, 10.0)
_LOGARITHMS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0)


class Metrics:
    """The metrics of one service. Safe with several threads.

    Labels take few values: templates of routes, statuses, kinds of layers, ids of variants, names
    of errors. Nothing that a client makes up is one.

    Args:
        graphs: Whose number and size are told.
        models: Whose number is told.
        follower: What chooses, which is told.
        jobs: Counts jobs by state.
        engine: What runs layers, which is told.

    Attributes:
        registry: All of them, and nothing of other services in the process.
        request_seconds: From a request's head to the end of its answer; `route`, `status`.
        queue_seconds: That computations waited before they began.
        select_seconds: That it took to choose variants for all layers of a model.
        compute_seconds: That layers ran, preparation included; `layer`.
        prediction_error: |log(predicted / measured)| of runs that prepared nothing; `layer`.
        failures: Requests that failed; `reason`.
        variant_chosen: Layers that ran; `layer`, `variant`, which is "module" for uncompiled ones.
        fallbacks: Choices that the roofline model made; `layer`.
        regret_sample: Chosen over best, of layers that were run again when idle; `layer`.
        queue_length: What waits or is under way; `queue`.
    """

    def __init__(
        self,
        graphs: GraphStore,
        models: ModelStore,
        follower: ChampionFollower,
        jobs: Callable[[], dict[State, int]],
        engine: Engine,
    ) -> None:
        self.registry = registry = _Registry()

        def histogram(
            name: str,
            text: str,
            labels: tuple[str, ...] = (),
            buckets: tuple[float, ...] = _SECONDS,
        ) -> Histogram:
            return Histogram(f"hetune_{name}", text, labels, registry=registry, buckets=buckets)

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"hetune_{name}", text, labels, registry=registry)

        self.request_seconds = histogram(
            "request_seconds",
            "Seconds from a request's head to the end of its answer",
            ("route", "status"),
        )
        self.queue_seconds = histogram(
            "queue_seconds", "Seconds that computations waited before they began"
        )
        self.select_seconds = histogram(
            "select_seconds", "Seconds that it took to choose variants for all layers of a model"
        )
        self.compute_seconds = histogram(
            "compute_seconds", "Seconds that layers ran, preparation included", ("layer",)
        )
        self.prediction_error = histogram(
            "prediction_error",
            "|log(predicted / measured)| of runs of layers that prepared nothing",
            ("layer",),
            _LOGARITHMS,
        )
        self.regret_sample = histogram(
            "regret_sample",
            "Time of the chosen variant over that of the best one that was run beside it",
            ("layer",),
            _RATIOS,
        )
        self.failures = counter("failures", "Requests that failed", "reason")
        self.variant_chosen = counter(
            "variant_chosen", "Layers that ran, by variant", "layer", "variant"
        )
        self.fallbacks = counter(
            "fallbacks", "Choices that the roofline model made in place of a cost model", "layer"
        )
        self.queue_length = Gauge(
            "hetune_queue_length", "What waits or is under way", ("queue",), registry=registry
        )
        add_gauges(registry, graphs, models, follower, jobs, engine)
        # Looking a series up takes longer than to count in it, and there are but few.
        self._request_seconds_of = cache(self.request_seconds.labels)
        self._compute_seconds_of = cache(self.compute_seconds.labels)
        self._variant_chosen_of = cache(self.variant_chosen.labels)
        self._prediction_error_of = cache(self.prediction_error.labels)

    def layer_ran(self, layer: LayerReport, *, prepared: bool) -> None:
        """Notes a layer that ran.

        Args:
            layer: What ran, with the time that it took.
            prepared: Whether that time has preparation in it, which predictions have not.
        """
        seconds = layer.measured_seconds
        assert seconds is not None
        self._compute_seconds_of(layer.layer).observe(seconds)
        ran = layer.variant if layer.uncompiled is None else "module"
        self._variant_chosen_of(layer.layer, ran).inc()
        if not prepared and seconds > 0 and layer.predicted_seconds > 0:
            error = abs(math.log(layer.predicted_seconds / seconds))
            self._prediction_error_of(layer.layer).observe(error)

    def answered(self, route: str, status: int, seconds: float) -> None:
        """Notes a request that was answered.

        Args:
            route: Its method and the template of its path.
            status: Of the answer.
            seconds: From its head to the end of the answer.
        """
        self._request_seconds_of(route, str(status)).observe(seconds)


class _Registry(CollectorRegistry):
    """Leaves out when each series began, which the text format would make a metric of its own."""

    def collect(self) -> Iterator[Metric]:
        for metric in super().collect():
            metric.samples = [s for s in metric.samples if not s.name.endswith("_created")]
            yield metric
