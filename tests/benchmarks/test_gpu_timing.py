"""How calls are timed on a GPU, by events that a test makes up; and limits of time."""

import contextlib
import time

import pytest
from _gpu_timing import OutOfTime, at_most, in_turns, peak_bytes, stopwatch, summary
from tests.profiling._fake_gpu import FakeGpu

from hetune.profiling.measure.stopwatch import CudaStopwatch, TimedRun, WallStopwatch


def test_candidates_take_turns_after_one_call_to_warm_up():
    card, calls = FakeGpu(), []
    runs = {name: (lambda name=name: (calls.append(name), card.work(2.0))) for name in "ab"}
    times = in_turns(runs, card.stopwatch(), rounds=5)
    assert calls[:2] == ["a", "b"]
    rounds = [set(calls[i : i + 2]) for i in range(2, len(calls), 2)]
    assert rounds == [{"a", "b"}] * 5
    assert times["a"]["times_ms"] == [2.0] * 5
    assert {"median_ms", "min_ms", "iqr_ms", "host_ms"} <= set(times["b"])


def test_what_takes_long_takes_fewer_turns():
    card = FakeGpu()
    assert (
        len(
            in_turns({"a": lambda: card.work(2.0)}, card.stopwatch(), 50, budget_s=0.01)["a"][
                "times_ms"
            ]
        )
        == 5
    )
    assert (
        len(
            in_turns({"a": lambda: card.work(2.0)}, card.stopwatch(), 50, budget_s=0.0)["a"][
                "times_ms"
            ]
        )
        == 3
    )


def test_on_a_cpu_a_clock_is_read():
    assert stopwatch("cpu") == WallStopwatch()
    assert isinstance(stopwatch("cuda"), CudaStopwatch)
    assert peak_bytes(lambda: None, "cpu") is None


def test_the_spread_is_told():
    told = summary([TimedRun(ms * 1e-3) for ms in (1.0, 2.0, 3.0, 10.0)])
    assert (told["median_ms"], told["min_ms"], told["iqr_ms"]) == (2.5, 1.0, 3.0)


def sleep_whatever_happens() -> None:
    """As a compiler does, which catches every Exception and goes on."""
    with contextlib.suppress(Exception), at_most(0.05):
        time.sleep(30)


def test_a_call_that_takes_too_long_is_interrupted():
    with pytest.raises(OutOfTime, match="no result"):
        sleep_whatever_happens()
    with at_most(30.0):
        pass  # and nothing rings afterwards
