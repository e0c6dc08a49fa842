"""Inputs that were measured while the machine was busy with something else."""

import statistics
from collections import defaultdict
from collections.abc import Iterable

from _selection_finals import Key, key

from hetune.profiling.records import Measurement

MOST_DRIFT = 0.5
"""Share by which the reference kernel's time moved: what is measured meanwhile tells nothing."""


def unsteady(measurements: Iterable[Measurement]) -> frozenset[Key]:
    """Inputs half of whose variants were measured so, by their `key`."""
    drifts: dict[Key, list[float]] = defaultdict(list)
    for measurement in measurements:
        drifts[key(measurement)].append(measurement.drift)
    return frozenset(of for of, those in drifts.items() if statistics.median(those) > MOST_DRIFT)
