"""Metrics that nobody counts: they are looked up when they are asked for."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, fields
from functools import partial
from typing import Generic, TypeVar

from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from hetune.costmodel.selection.champion import ChampionFollower
from hetune.profiling.jobs.records import State
from hetune.service.core.graphs.graphs import GraphStore
from hetune.service.core.models.device import Usage
from hetune.service.core.models.engine import Engine
from hetune.service.core.models.models import ModelStore
from hetune.variants.errors import HetuneError
from hetune.variants.registry.default import default_registry

T = TypeVar("T")
_FRESH_SECONDS, _PATIENCE_SECONDS = 5.0, 1.0


def add_gauges(
    registry: CollectorRegistry,
    graphs: GraphStore,
    models: ModelStore,
    follower: ChampionFollower,
    jobs: Callable[[], dict[State, int]],
    engine: Engine,
) -> None:
    """Adds all of them; those that cannot be looked up are NaN.

    Args:
        registry: Where they are told.
        graphs: Whose number and size are told.
        models: Whose number is told.
        follower: What chooses, and whether a champion was refused.
        jobs: Counts jobs by state.
        engine: What runs layers, where, and how a GPU's memory is used.
    """

    def gauge(name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"hetune_{name}", text, labels, registry=registry)

    def looked_up(child: Gauge, value: Callable[[], float]) -> None:
        child.set_function(partial(_number, value))

    looked_up(gauge("graphs", "Graphs that are kept"), lambda: len(graphs.all()))
    looked_up(
        gauge("graph_bytes", "Bytes of graphs and their features on disk"),
        lambda: sum(graph.bytes for graph in graphs.all()),
    )
    looked_up(
        gauge("models", "Versions of models that are kept"),
        lambda: sum(len(models.versions(name)) for name in models.names()),
    )
    looked_up(
        gauge("champion_refused", "1 if the champion cannot be used, else 0"),
        lambda: follower.problem is not None,
    )
    device = gauge("device_info", "1 for what runs layers", "device", "backend")
    device.labels(str(engine.device.torch_device), engine.backend.name).set(1)
    memory = gauge("device_bytes", "Bytes of a GPU's memory, by use", "use")
    copies = engine.copies
    looked_up(memory.labels("graphs"), lambda: math.nan if copies is None else copies.nbytes)
    for field in fields(Usage):
        looked_up(memory.labels(field.name), partial(_usage, engine, field.name))
    registry.register(_LookedUp(follower, jobs))


def _number(look: Callable[[], float]) -> float:
    try:
        return look()
    except HetuneError:
        return math.nan


def _usage(engine: Engine, use: str) -> float:
    return float(getattr(engine.usage(), use, math.nan))


class _LookedUp(Collector):
    """Families whose labels or values come together: each is looked up once for a scrape."""

    def __init__(self, follower: ChampionFollower, jobs: Callable[[], dict[State, int]]) -> None:
        self._follower, self._jobs = follower, CachedValue(jobs)
        self._size = CachedValue(lambda: default_registry().size())

    def collect(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
        """Names, help and values."""
        chooses = GaugeMetricFamily(
            "hetune_cost_model_info", "1 for the cost model that chooses", labels=["model"]
        )
        chooses.add_metric([self._follower.active.model], 1)
        yield chooses
        kernels, size = self._size.get() or (math.nan, math.nan)
        yield GaugeMetricFamily("hetune_registry_kernels", "Compiled kernels on disk", kernels)
        yield GaugeMetricFamily("hetune_registry_bytes", "Bytes of compiled kernels on disk", size)
        loads = CounterMetricFamily(
            "hetune_registry_loads",
            "Kernels that this process asked for, by where they came from",
            labels=["result"],
        )
        for result, count in asdict(default_registry().loads).items():
            loads.add_metric([result], count)
        yield loads
        by_state = GaugeMetricFamily("hetune_jobs", "Profiling jobs by state", labels=["state"])
        counts = self._jobs.get() or {}
        for state in State:
            by_state.add_metric([state.value], counts.get(state, math.nan))
        yield by_state


class CachedValue(Generic[T]):
    """A value that is looked up at most every few seconds, by one thread, and not waited for long.

    Args:
        look: Looks it up.
    """

    def __init__(self, look: Callable[[], T]) -> None:
        self._look = look
        self._asking = threading.Lock()
        self._looking: threading.Thread | None = None
        self._found: T | None = None
        self._until = -math.inf

    def get(self) -> T | None:
        """The value; None if it cannot be had, or not within a second."""
        with self._asking:
            # In this order: a thread that is seen to have ended has said until when.
            if self._looking is None or not self._looking.is_alive():
                if time.monotonic() < self._until:
                    return self._found
                self._found = None
                self._looking = threading.Thread(
                    target=self._look_up, name="hetune-metrics", daemon=True
                )
                self._looking.start()
            self._looking.join(_PATIENCE_SECONDS)
            return self._found

    def _look_up(self) -> None:
        try:
            self._found = self._look()
        except HetuneError:
            self._found = None
        self._until = time.monotonic() + _FRESH_SECONDS
