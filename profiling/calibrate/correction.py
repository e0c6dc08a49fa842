"""How far a cost model is off on this machine, by kernel family, from a few measured launches."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hetune.costmodel.features.devices import Rates, roofline_of
from hetune.costmodel.model.cost_model import CostModel
from hetune.costmodel.problems import LaunchBatch
from hetune.profiling.records import Measurement, Status
from hetune.profiling.store.summary import TIME, quantile

_BELIEF = 8
"""So many launches that say "no correction" are taken to have been measured before."""

_MOST = math.log(8)
"""Larger corrections come from broken measurements, not from machines."""


@dataclass(frozen=True, slots=True, eq=False)
class Observed:
    """The launches of one problem, measured.

    Attributes:
        families: Kernel family of each launch.
        columns: `hetune.variants.runtime.launch_columns.COLUMNS` of each; float64
            [launches, columns].
        seconds: Measured time, the quantile that cost models predict (`TIME`); float64 [launches].
        graph_features: `hetune.costmodel.features.graph.NAMES` of the graph; float64.
        threads: How many shared a launch.
    """

    families: tuple[str, ...]
    columns: NDArray[np.float64]
    seconds: NDArray[np.float64]
    graph_features: NDArray[np.float64]
    threads: int

    @classmethod
    def of(cls, measurements: Sequence[Measurement]) -> Observed | None:
        """The distinct launches of a problem's units; None if no unit has times."""
        known = {
            launch.kernel: launch
            for measurement in measurements
            if measurement.status is Status.OK
            for launch in measurement.launches
        }
        if not known:
            return None
        launches = tuple(known.values())
        return cls(
            tuple(launch.family for launch in launches),
            np.array([launch.columns for launch in launches], np.float64),
            np.array([quantile(launch.samples, TIME) for launch in launches]),
            np.array(measurements[0].graph_features, np.float64),
            measurements[0].threads,
        )


Predict = Callable[[Observed], NDArray[np.float64]]
"""Seconds of each launch, float64 [launches]."""


@dataclass(frozen=True, slots=True)
class Correction:
    """What to add to the logarithms of predictions.

    Attributes:
        offsets: By kernel family.
        error: Median over all launches of the absolute log(measured / predicted), with offsets
            fitted to the other problems.
    """

    offsets: Mapping[str, float]
    error: float


def predictions(model: CostModel | None, machine: Rates) -> Predict:
    """What a cost model, or the roofline model, predicts for a machine of these rates."""

    def predict(observed: Observed) -> NDArray[np.float64]:
        columns, threads = observed.columns, observed.threads
        if model is None:
            return roofline_of(columns, machine, threads)
        launches = LaunchBatch(observed.families, columns, observed.graph_features, threads)
        return model.predict(launches, machine)

    return predict


def error(observed: Sequence[Observed], predict: Predict) -> float:
    """Median over all launches of the absolute log(measured / predicted)."""
    return float(np.median(np.abs(np.concatenate([_logs(each, predict) for each in observed]))))


def correct(observed: Sequence[Observed], predict: Predict) -> Correction:
    """Fits an offset to each kernel family: the median of log(measured / predicted).

    Medians of few launches are shrunk towards 0.
    """
    logs = [_logs(each, predict) for each in observed]
    families = [np.array(each.families) for each in observed]
    left = []
    for position, (log, family) in enumerate(zip(logs, families, strict=True)):
        others = [i for i in range(len(observed)) if i != position]
        offsets = _offsets([families[i] for i in others], [logs[i] for i in others])
        left.append(log - np.array([offsets.get(str(name), 0.0) for name in family]))
    return Correction(_offsets(families, logs), float(np.median(np.abs(np.concatenate(left)))))


def _logs(observed: Observed, predict: Predict) -> NDArray[np.float64]:
    logs: NDArray[np.float64] = np.log(observed.seconds / predict(observed))
    return logs


def _offsets(
    families: Sequence[NDArray[np.str_]], logs: Sequence[NDArray[np.float64]]
) -> dict[str, float]:
    if not families:
        return {}
    names, values = np.concatenate(families), np.concatenate(logs)
    found = {}
    for name in sorted(set(names.tolist())):
        of_family = values[names == name]
        shrunk = float(np.median(of_family)) * len(of_family) / (len(of_family) + _BELIEF)
        found[name] = min(max(shrunk, -_MOST), _MOST)
    return found
