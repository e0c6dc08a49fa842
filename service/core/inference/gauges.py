"""Metrics that nobody counts: they are looked up when they are asked for."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, fields
from typing import Generic, TypeVar

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

_KEPT = {
    "hetune_graphs": "Graphs that are kept",
    "hetune_graph_bytes": "Bytes of graphs and their features on disk",
    "hetune_models": "Versions of models that are kept",
}


class StoreGauges(Collector):
    """What is kept; NaN where it cannot be looked up."""

    def __init__(self, graphs: GraphStore, models: ModelStore) -> None:
        self._graphs, self._models = graphs, models

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Names and help."""
        for name, text in _KEPT.items():
            yield GaugeMetricFamily(name, text)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Values."""
        for family, value in zip(self.describe(), self._values(), strict=True):
            family.add_metric([], value)
            yield family

    def _values(self) -> tuple[float, float, float]:
        try:
            sizes = [graph.bytes for graph in self._graphs.all()]
            versions = sum(len(self._models.versions(name)) for name in self._models.names())
        except HetuneError:
            return math.nan, math.nan, math.nan
        return len(sizes), sum(sizes), versions


class SelectorGauges(Collector):
    """Which cost model chooses, as a label; and whether a champion was refused."""

    def __init__(self, follower: ChampionFollower) -> None:
        self._follower = follower

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Names and help."""
        yield GaugeMetricFamily(
            "hetune_cost_model_info", "1 for the cost model that chooses", labels=["model"]
        )
        yield GaugeMetricFamily(
            "hetune_champion_refused", "1 if the champion cannot be used, else 0"
        )

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Values."""
        chooses, refused = self.describe()
        chooses.add_metric([self._follower.active.model], 1)
        refused.add_metric([], self._follower.problem is not None)
        return iter((chooses, refused))


class DeviceGauges(Collector):
    """What runs layers, and where; and how a GPU's memory is used."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Names and help."""
        labels = ["device", "backend"]
        yield GaugeMetricFamily("hetune_device_info", "1 for what runs layers", labels=labels)
        yield GaugeMetricFamily(
            "hetune_device_bytes", "Bytes of a GPU's memory, by use", labels=["use"]
        )

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Values; NaN for the host's memory, and where the device does not answer."""
        info, memory = self.describe()
        engine = self._engine
        info.add_metric([str(engine.device.torch_device), engine.backend.name], 1)
        usage = engine.usage()
        copies = math.nan if engine.copies is None else engine.copies.nbytes
        memory.add_metric(["graphs"], copies)
        for field in fields(Usage):
            memory.add_metric([field.name], getattr(usage, field.name, math.nan))
        return iter((info, memory))


class RegistryGauges(Collector):
    """The registry of compiled kernels: what is in its folder, and what this process asked it."""

    def __init__(self) -> None:
        self._size = CachedValue(lambda: default_registry().size())

    def describe(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
        """Names and help."""
        yield GaugeMetricFamily("hetune_registry_kernels", "Compiled kernels on disk")
        yield GaugeMetricFamily("hetune_registry_bytes", "Bytes of compiled kernels on disk")
        yield CounterMetricFamily(
            "hetune_registry_loads",
            "Kernels that this process asked for, by where they came from",
            labels=["result"],
        )

    def collect(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
        """Values; NaN where they cannot be looked up."""
        *sizes, loads = self.describe()
        found = self._size.get() or (math.nan, math.nan)
        for family, value in zip(sizes, found, strict=True):
            family.add_metric([], value)
            yield family
        for result, count in asdict(default_registry().loads).items():
            loads.add_metric([result], count)
        yield loads


class JobGauges(Collector):
    """Profiling jobs by state; NaN where the database does not say."""

    def __init__(self, counts: Callable[[], dict[State, int]]) -> None:
        self._counts = CachedValue(counts)

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Name and help."""
        yield GaugeMetricFamily("hetune_jobs", "Profiling jobs by state", labels=["state"])

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Values."""
        [family] = self.describe()
        found = self._counts.get() or {}
        for state in State:
            family.add_metric([state.value], found.get(state, math.nan))
        yield family


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
