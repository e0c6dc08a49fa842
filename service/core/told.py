"""Metrics that nobody counts: they are looked up when they are asked for."""

from __future__ import annotations

import math
from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from hetune.costmodel.following import Following, Given
from hetune.service.core.graphs import GraphStore
from hetune.service.core.models import ModelStore
from hetune.variants.errors import HetuneError

_KEPT = {
    "hetune_graphs": "Graphs that are kept",
    "hetune_graph_bytes": "Bytes of graphs on disk",
    "hetune_models": "Versions of models that are kept",
}


class Kept(Collector):
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


class Chooses(Collector):
    """Which cost model chooses, as a label; and whether a champion was refused."""

    def __init__(self, following: Following | Given) -> None:
        self._following = following

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
        chooses.add_metric([self._following.active.model], 1)
        refused.add_metric([], self._following.problem is not None)
        return iter((chooses, refused))
