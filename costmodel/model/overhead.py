"""What a run takes beyond its launches."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hetune.costmodel.problems import Problem


@dataclass(frozen=True, slots=True)
class Overhead:
    """Seconds that no launch accounts for.

    Attributes:
        run_seconds: Of every run: checking inputs, handing out buffers. It is the same for all
            variants, but not for short and long runs.
        launch_seconds: Of every launch of a run.
    """

    run_seconds: float
    launch_seconds: float

    @classmethod
    def fit(cls, problems: Sequence[Problem]) -> Overhead:
        """Medians over measured problems, robust against a disturbed run; none is negative.

        A launch's share is taken from variants of one problem that differ in their number of
        launches: across problems that number goes along with the layer and its size.
        """
        slopes: list[float] = []
        for problem in problems:
            by_count: dict[int, list[float]] = defaultdict(list)
            for candidate in problem.candidates:
                beyond = candidate.seconds - sum(launch.seconds for launch in candidate.launches)
                by_count[len(candidate.launches)].append(beyond)
            medians = [(count, float(np.median(by_count[count]))) for count in sorted(by_count)]
            slopes += [
                (more - less) / (many - few)
                for (few, less), (many, more) in itertools.combinations(medians, 2)
            ]
        launch_seconds = max(0.0, float(np.median(slopes))) if slopes else 0.0
        beyond_launches = [
            candidate.seconds - sum(each.seconds + launch_seconds for each in candidate.launches)
            for problem in problems
            for candidate in problem.candidates
        ]
        return cls(max(0.0, float(np.median(beyond_launches))), launch_seconds)

    def seconds(self, launches: NDArray[np.float64]) -> NDArray[np.float64]:
        """Of runs of so many launches each."""
        found: NDArray[np.float64] = self.run_seconds + self.launch_seconds * launches
        return found
