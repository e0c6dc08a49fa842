"""Inputs that were measured while the machine was busy with something else."""

import statistics
from collections import defaultdict
from collections.abc import Iterable

from _selection_finals import Key

from hetune.profiling.records import Measurement

MOST_DRIFT = 0.5
"""Share by which the reference kernel's time moved: what is measured meanwhile tells nothing."""


def unsteady(measurements: Iterable[Measurement]) -> frozenset[Key]:
    """Inputs half of whose variants were measured so, as `_selection_finals.key` tells them."""
    drifts: dict[Key, list[float]] = defaultdict(list)
    for m in measurements:
        input_ = (m.graph, m.family, m.layer, m.d_in, m.d_out, m.heads, m.threads, m.machine)
        drifts[input_].append(m.drift)
    return frozenset(i for i, d in drifts.items() if statistics.median(d) > MOST_DRIFT)
