"""Inputs that were measured while the machine was busy with something else."""

import statistics
from collections import defaultdict
from collections.abc import Iterable

from _selection_finals import Key, key

from hetune.profiling.records import Measurement
from hetune.profiling.store.problems import MOST_DRIFT


def unsteady(measurements: Iterable[Measurement]) -> frozenset[Key]:
    """Inputs half of whose variants were measured so, by their `key`; `problems` lacks them."""
    drifts: dict[Key, list[float]] = defaultdict(list)
    for measurement in measurements:
        drifts[key(measurement)].append(measurement.drift)
    return frozenset(of for of, those in drifts.items() if statistics.median(those) > MOST_DRIFT)
