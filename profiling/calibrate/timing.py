"""Timing probes: short runs take turns."""

from __future__ import annotations

import logging
import math
import statistics
import time
from collections.abc import Callable, Mapping

import numpy as np

from hetune.profiling.calibrate.probes import Probe
from hetune.profiling.measure.rounds import take_rounds
from hetune.profiling.measure.stopwatch import Stopwatch, WallStopwatch

_RUN_SECONDS = 1e-3
_LEAST_ROUNDS = 3
_BUSY = 1.5
"""Median runs take this much longer than the fastest ones."""
_log = logging.getLogger(__name__)


def time_probes(
    probes: Mapping[str, Probe],
    rounds: int,
    seconds: float = math.inf,
    progress: Callable[[int, int], None] = lambda done, total: None,
    watch: Stopwatch | None = None,
) -> dict[str, float]:
    """Seconds for each unit of a probe, in the run that counts (`Probe.quantile`).

    Args:
        probes: By name.
        rounds: How often each is timed.
        seconds: With fewer rounds if they would take longer.
        progress: Called with how many rounds are done, and how many there are.
        watch: Times runs; a clock if None.
    """
    watch = watch or WallStopwatch()
    end = time.perf_counter() + seconds
    repeats = {name: _repeats(probe) for name, probe in probes.items()}
    samplers = {name: _sampler(probe, repeats[name], watch) for name, probe in probes.items()}
    taken: dict[str, list[float]] = {name: [] for name in probes}
    for turn in range(rounds):
        if turn >= _LEAST_ROUNDS and time.perf_counter() > end:
            break
        for name, samples in take_rounds(samplers, 1, seed=turn).samples.items():
            taken[name] += samples
        progress(turn + 1, rounds)
    slowed = [statistics.median(each) > _BUSY * min(each) for each in taken.values()]
    if sum(slowed) > len(slowed) / 2:
        _log.warning(
            "something else keeps this machine busy: rates were taken from its calmest moments, "
            "and may be too low; calibrate again when it is idle"
        )
    return {
        name: float(np.quantile(taken[name], probe.quantile)) / (repeats[name] * probe.units)
        for name, probe in probes.items()
    }


def _repeats(probe: Probe) -> int:
    """How many runs last long enough for a clock; it is run once at least."""
    probe.run()
    if not probe.repeats:
        return 1
    start = time.perf_counter()
    probe.run()
    return max(1, math.ceil(_RUN_SECONDS / max(time.perf_counter() - start, 1e-6)))


def _sampler(probe: Probe, repeats: int, watch: Stopwatch) -> Callable[[], float]:
    def run(mark: object) -> None:
        for _ in range(repeats):
            probe.run()

    return lambda: watch.time(run)[1].seconds
