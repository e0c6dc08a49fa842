"""Interleaved rounds: who runs when, and what is made of the times."""

import gc

import pytest

from hetune.variants.runtime.timing import Timing, interleave


def test_every_candidate_runs_once_per_round_in_changing_order():
    calls: list[str] = []
    runs = {name: (lambda name=name: calls.append(name)) for name in "abcd"}
    ticks = iter(range(1000))
    timings = interleave(runs, 8, seed=1, clock=lambda: float(next(ticks)))
    rounds = ["".join(calls[i : i + 4]) for i in range(0, len(calls), 4)]
    assert {"".join(sorted(order)) for order in rounds} == {"abcd"}
    assert len(set(rounds)) > 1
    assert {name: timing.seconds for name, timing in timings.items()} == dict.fromkeys(
        "abcd", (1.0,) * 8
    )


def test_progress_is_outside_of_what_is_timed():
    order: list[str] = []
    interleave(
        {"a": lambda: order.append("run")},
        2,
        progress=lambda: order.append("progress"),
        clock=lambda: order.append("clock") or 0.0,
    )
    assert order == ["clock", "run", "clock", "progress"] * 2


def test_garbage_is_collected_between_rounds_only():
    assert gc.isenabled()
    seen = []
    interleave({"a": lambda: seen.append(gc.isenabled())}, 1)
    assert seen == [False]
    assert gc.isenabled()


def test_median_and_spread():
    timing = Timing((4.0, 1.0, 3.0, 2.0, 10.0))
    assert (timing.median, timing.iqr) == (3.0, 2.0)
    assert Timing((1.0,)).iqr == 0.0


def test_no_rounds():
    with pytest.raises(ValueError, match="0 rounds measure nothing"):
        interleave({}, 0)
