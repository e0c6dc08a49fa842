"""Predicted beside measured times of launches, and how far they are apart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hetune.costmodel.features.devices import Rates
from hetune.costmodel.problems import LaunchBatch, Problem

_LIMIT = 3000
"""Launches of a kernel family that are kept: more are thinned out evenly."""


class Predictor(Protocol):
    """What is judged: `hetune.costmodel.model.cost_model.CostModel`, or anything like it."""

    def choose(self, problem: Problem, machine: Rates | None = None) -> str:
        """The variant that it would run, by id."""

    def predict(self, launches: LaunchBatch, machine: Rates) -> NDArray[np.float64]:
        """Predicted seconds of launches."""


@dataclass(frozen=True, slots=True)
class Points:
    """Launches of one kernel family, on graphs that the model was not trained on.

    Attributes:
        measured: Measured seconds of each.
        predicted: Predicted seconds of each.
    """

    measured: tuple[float, ...]
    predicted: tuple[float, ...]

    @property
    def errors(self) -> NDArray[np.float64]:
        """How many times too long or too short the predictions are, at least 1; [launches]."""
        ratio = np.array(self.predicted) / np.array(self.measured)
        found: NDArray[np.float64] = np.exp(np.abs(np.log(ratio)))
        return found

    @property
    def median_error(self) -> float:
        """The factor that half of the predictions are within, less 1."""
        return float(np.median(self.errors)) - 1

    def share_within(self, factor: float) -> float:
        """Share of predictions that are off by at most so many times."""
        return float(np.mean(self.errors <= factor))

    def thinned(self, limit: int = _LIMIT) -> Points:
        """At most so many of the launches, from all over, with four digits."""
        step = max(1, -(-len(self.measured) // limit))
        measured, predicted = self.measured[::step], self.predicted[::step]
        return Points(tuple(map(_rounded, measured)), tuple(map(_rounded, predicted)))


def predict_launches(
    model: Predictor, problems: Iterable[Problem], machine: Rates
) -> dict[str, Points]:
    """What a model says of the launches of problems, by kernel family.

    A launch that several variants of a problem share counts once, with its median time.
    """
    found: dict[str, list[tuple[float, float]]] = {}
    for problem in problems:
        times = times_of(problem)
        predicted = model.predict(LaunchBatch.of(problem, times), machine)
        for ((family, _), measured), seconds in zip(times.items(), predicted, strict=True):
            found.setdefault(family, []).append((float(np.median(measured)), float(seconds)))
    return {family: Points(*zip(*pairs, strict=True)) for family, pairs in found.items()}


def times_of(problem: Problem) -> dict[tuple[str, tuple[float, ...]], list[float]]:
    """The distinct launches of a problem, by family and columns, with their measured times."""
    times: dict[tuple[str, tuple[float, ...]], list[float]] = {}
    for candidate in problem.candidates:
        for launch in candidate.launches:
            times.setdefault((launch.family, launch.columns), []).append(launch.seconds)
    return times


def merged(parts: Sequence[Mapping[str, Points]]) -> dict[str, Points]:
    """The points of all parts, thinned, by kernel family."""
    families = dict.fromkeys(family for part in parts for family in part)
    return {
        family: Points(
            tuple(t for part in parts if family in part for t in part[family].measured),
            tuple(t for part in parts if family in part for t in part[family].predicted),
        ).thinned()
        for family in sorted(families)
    }


def _rounded(seconds: float) -> float:
    return float(f"{seconds:.3e}")
