"""Times that can be compared: interleaved rounds, so that slow drift of a machine meets all."""

from __future__ import annotations

import gc
import random
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of each run of one candidate, in the order in which they were taken."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """Median seconds."""
        return statistics.median(self.seconds)

    @property
    def iqr(self) -> float:
        """Seconds between the first and the third quartile; 0 for a single run."""
        if len(self.seconds) < 2:
            return 0.0
        low, _, high = statistics.quantiles(self.seconds, n=4, method="inclusive")
        return high - low


def interleave(
    runs: Mapping[str, Callable[[], object]],
    rounds: int,
    *,
    seed: int = 0,
    progress: Callable[[], None] = lambda: None,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Timing]:
    """Times every candidate once per round, in an order that is drawn anew for each round.

    Args:
        runs: What to call, by name; warmed up already. Results are dropped at once.
        rounds: How many rounds, at least 1.
        seed: Seed of the orders.
        progress: Called after each run, outside of the timed part.
        clock: Seconds.

    Raises:
        ValueError: There are no rounds.
    """
    if rounds < 1:
        raise ValueError(f"{rounds} rounds measure nothing: take 1 or more")
    generator = random.Random(seed)  # noqa: S311  an order, no secret
    times: dict[str, list[float]] = {name: [] for name in runs}
    order = list(runs)
    collects = gc.isenabled()
    gc.disable()
    try:
        for _ in range(rounds):
            gc.collect()
            generator.shuffle(order)
            for name in order:
                times[name].append(_timed(runs[name], clock))
                progress()
    finally:
        if collects:
            gc.enable()
    return {name: Timing(tuple(seconds)) for name, seconds in times.items()}


def _timed(run: Callable[[], object], clock: Callable[[], float]) -> float:
    start = clock()
    result = run()
    seconds = clock() - start
    del result  # freed outside of the timed part
    return seconds
