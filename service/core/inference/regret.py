"""What choices have lost, as samples: a layer that ran is run again beside its runners-up."""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from hetune.costmodel.selection.champion import ChampionFollower
from hetune.service.core.formats.limits import ServiceLimits
from hetune.service.core.inference.metrics import Metrics
from hetune.service.core.inference.selection import threads_for
from hetune.service.core.models.engine import Engine
from hetune.service.core.models.models import Model
from hetune.variants.errors import InputError
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.threads import using_threads
from hetune.variants.program.nodes import Space

ROUNDS = 3
_RUNNERS_UP = 2
_MOST_SECONDS = 0.1
_FLOAT_BYTES = 4


@dataclass(frozen=True, slots=True, eq=False)
class RegretSample:
    """A layer on a graph, and the variants to compare. In steps, so that requests can come between.

    The graph is a copy without indexes, so that nobody waits for what is being prepared on it;
    features are drawn, for a client's are not kept, and times do not depend on them.

    Attributes:
        layer: Label of the layer's program.
        variants: The chosen one, then the runners-up.
        threads: That their kernels use.
    """

    layer: str
    variants: tuple[str, ...]
    threads: int
    _engine: Engine
    _model: Model
    _number: int
    _graph: HeteroGraph
    _rows: tuple[torch.Tensor, ...]

    def run(self, variant: str) -> float:
        """Runs the layer once by a variant, and gives the seconds. The first run prepares it.

        Raises:
            InputError: A number outgrows float32 in the variant.
            DeviceError: The GPU that layers run on fails, or has no memory left.
        """
        engine, layer = self._engine, self._model.compiled[self._number]
        threads = using_threads(self.threads, exactly=True)
        with engine.guarded(), torch.no_grad(), threads:
            graph = engine.graph(self._graph)
            start = engine.device.now()
            layer(*self._rows, graph, variant=variant)
            return engine.device.now() - start


class RegretSamples:
    """Holds at most one layer that is to be run again; a later one is not taken before it was.

    Args:
        rate: Share of runs that are offered to be taken, 0 to 1; 0 for none.
        follower: Who chooses, and so knows the runners-up.
        engine: What runs layers.
        limits: `run_bytes` bounds what a sample holds.
        metrics: Where ratios are noted.

    Raises:
        InputError: The rate is none.
    """

    def __init__(
        self,
        rate: float,
        follower: ChampionFollower,
        engine: Engine,
        limits: ServiceLimits,
        metrics: Metrics,
    ) -> None:
        if not 0 <= rate <= 1:
            raise InputError(f"{rate} is no share of runs: take a number from 0 to 1")
        self.rate = rate
        self._follower, self._engine = follower, engine
        self._limits, self._metrics = limits, metrics
        self._random = random.Random()  # noqa: S311 (nothing secret)
        self._offered: tuple[Model, HeteroGraph, int, str] | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether there is something to be run again."""
        return self._offered is not None

    def offer(self, model: Model, graph: HeteroGraph, variants: Sequence[str]) -> None:
        """Tells of a run; costs next to nothing.

        Args:
            model: What ran.
            graph: What on; one that the service keeps.
            variants: Chosen for its layers.
        """
        if self.rate > 0 and self._offered is None and self._random.random() < self.rate:
            number = self._random.randrange(len(variants))
            self._offered = model, graph, number, variants[number]

    def take(self) -> RegretSample | None:
        """What is to be run again; None if nothing is, or nothing that should be.

        Left out is what has no runner-up, would take more memory than a run may, or keep a request
        waiting: variants that are predicted to run for more than a tenth of a second.
        """
        offered, self._offered = self._offered, None
        if offered is None:
            return None
        model, graph, number, chosen = offered
        module, wiring = model.modules[number], model.wiring
        types = [wiring.types[name] for name in wiring.reads[number]]
        counts = {Space.NODE: graph.num_nodes, Space.EDGE: graph.num_edges}
        graph = wiring.graph(number, graph)
        feature_bytes = sum(counts[type_.space] * type_.width for type_ in types) * _FLOAT_BYTES
        limit = self._limits.run_bytes - feature_bytes
        selector, placed = self._follower.active.selector, self._engine.graph(graph)
        precision = model.description.precision
        threads = threads_for(selector, module, placed, precision)
        with using_threads(threads):
            everything = selector.choose(module, placed, precision=precision).candidates
        candidates = [
            candidate
            for candidate in everything
            if candidate.peak_bytes <= limit and candidate.seconds <= _MOST_SECONDS
        ]
        if chosen not in {candidate.id for candidate in candidates}:
            return None
        others = [candidate.id for candidate in candidates if candidate.id != chosen]
        if not others:
            return None
        rows = tuple(
            self._engine.device.put(torch.randn(counts[type_.space], type_.width))
            for type_ in types
        )
        variants = chosen, *others[:_RUNNERS_UP]
        engine = self._engine
        return RegretSample(
            module.kind, variants, threads, engine, model, number, graph.unindexed(), rows
        )

    def record(self, sample: RegretSample, seconds: dict[str, list[float]]) -> float:
        """Notes what was measured, and gives the chosen variant's median over the least one.

        Args:
            sample: What was run.
            seconds: Of every variant's runs, without the first.
        """
        medians = {variant: statistics.median(times) for variant, times in seconds.items()}
        ratio = medians[sample.variants[0]] / min(medians.values())
        self._metrics.regret_sample.labels(sample.layer).observe(ratio)
        return ratio
