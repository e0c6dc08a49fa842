"""Timing on a GPU, as `hetune.profiling.measure.stopwatch` does it, in turns.

With "cpu" the same functions read a clock, so that everything but the events is tested anywhere.
"""

import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from _measure import as_json, rounds_within
from torch.profiler import ProfilerActivity, profile

from hetune.profiling.measure.rounds import take_rounds
from hetune.profiling.measure.stopwatch import CudaStopwatch, Stopwatch, TimedRun, WallStopwatch
from hetune.profiling.measure.timing import Timing

Run = Callable[[], Any]
_PROFILED = 5
BUDGET_S = 2.0
"""Seconds that the rounds of one candidate may take."""


def stopwatch(device: str) -> Stopwatch:
    """What times calls on a device."""
    return WallStopwatch() if device == "cpu" else CudaStopwatch()


def in_turns(
    runs: Mapping[str, Run], watch: Stopwatch, rounds: int, *, budget_s: float = BUDGET_S
) -> dict[str, dict[str, Any]]:
    """Times of candidates that take turns, in random order, after one call each to warm up.

    Args:
        runs: What to call, by name; each has run before.
        watch: What times.
        rounds: How often each runs; less often, but at least 3 times, where that would take more
            than the budget.
        budget_s: Seconds for each of them.

    Returns:
        For each `as_json` of its times, and the median of what the host was busy, ``host_ms``.
    """

    def sampler(run: Run) -> Callable[[], TimedRun]:
        return lambda: watch.time(lambda mark: run())[1]

    samplers = {name: sampler(run) for name, run in runs.items()}
    warm = {name: sample().seconds for name, sample in samplers.items()}
    counts = {name: rounds_within(seconds, rounds, budget_s) for name, seconds in warm.items()}
    taken = take_rounds(samplers, counts)
    return {name: summary(samples) for name, samples in taken.samples.items()}


def beside(
    own: Run, it: Run, watch: Stopwatch, rounds: int, *, budget_s: float = BUDGET_S
) -> dict[str, Any]:
    """Times of a candidate that takes turns with hetune: also hetune's median, and their ratio."""
    turns = in_turns({"own": own, "it": it}, watch, rounds, budget_s=budget_s)
    ms = turns["own"]["median_ms"]
    ratio = turns["it"]["median_ms"] / ms if ms else None
    return {**turns["it"], "beside_ms": ms, "ratio": ratio}


def summary(samples: Sequence[TimedRun]) -> dict[str, Any]:
    """Times in milliseconds with their median, minimum and interquartile range."""
    host = Timing(tuple(sample.host_seconds for sample in samples))
    times = as_json(Timing(tuple(sample.seconds for sample in samples)))
    return {**times, "host_ms": round(host.median * 1e3, 4)}


def kernel_times(run: Run, device: str) -> dict[str, dict[str, float]]:
    """Microseconds of the kernels of a call, and how many there are, by name; longest first.

    Nothing on a CPU.
    """
    if device == "cpu":
        return {}
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        for _ in range(_PROFILED):
            run()
        torch.cuda.synchronize()
    found: dict[str, dict[str, float]] = {}
    for event in profiler.events():
        if event.device_type is torch.autograd.DeviceType.CUDA:
            kernel = found.setdefault(event.name, {"us": 0.0, "count": 0.0})
            kernel["us"] += event.time_range.elapsed_us() / _PROFILED
            kernel["count"] += 1 / _PROFILED
    return dict(sorted(found.items(), key=lambda item: -item[1]["us"]))


def peak_bytes(run: Run, device: str) -> int | None:
    """Bytes that torch's allocator held at most during a call, beside what it held before."""
    if device == "cpu":
        run()
        return None
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    result = run()
    torch.cuda.synchronize()
    del result
    return torch.cuda.max_memory_allocated() - before


def held_bytes(device: str) -> int:
    """Bytes that torch's allocator holds for tensors; 0 on the CPU."""
    if device == "cpu":
        return 0
    torch.cuda.synchronize()
    return torch.cuda.memory_allocated()


class OutOfTime(BaseException):
    """A call took longer than it may."""


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Interrupts what takes longer, between two instructions of Python, in the main thread.

    Raises:
        OutOfTime: It took longer.
    """

    def stop(*_: object) -> None:
        raise OutOfTime(f"no result within {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-3))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
