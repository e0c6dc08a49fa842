"""What models see of a problem that was measured, its times left out."""

from __future__ import annotations

import numpy as np

from hetune.costmodel.features.devices import Rates, features_of
from hetune.costmodel.problems import Problem
from hetune.profiling.active.launch_sums import LaunchSums


def of_measured(problem: Problem, machine: Rates) -> LaunchSums:
    numbers: dict[tuple[str, tuple[float, ...]], int] = {}
    rows_of = [
        [numbers.setdefault((la.family, la.columns), len(numbers)) for la in candidate.launches]
        for candidate in problem.candidates
    ]
    columns = np.array([columns for _, columns in numbers])
    return LaunchSums(
        len(rows_of),
        np.array([family for family, _ in numbers]),
        *features_of(columns, np.array(problem.graph_features), machine, problem.threads),
        np.array([row for rows in rows_of for row in rows], np.int64),
        np.repeat(np.arange(len(rows_of)), [len(rows) for rows in rows_of]),
    )
