"""What a run and its launches take, by clocks and events that a test makes up."""

import pytest
from tests.profiling._fake_gpu import FakeGpu

from hetune.profiling.measure.stopwatch import Mark, TimedRun, WallStopwatch


def test_a_clock_times_a_run_and_what_is_between_its_marks():
    ticks = iter((1.0, 2.0, 4.0, 4.5, 10.0))

    def run(mark: Mark) -> str:
        for _ in range(3):
            mark()
        return "out"

    out, sample = WallStopwatch(lambda: next(ticks)).time(run)
    assert (out, sample) == ("out", TimedRun(9.0, (2.0, 0.5), 9.0))


def test_a_run_finds_the_card_idle_and_its_cache_cold_and_is_waited_for_once():
    card = FakeGpu()

    def run(mark: Mark) -> str:
        mark()
        for milliseconds in (2.0, 3.0):
            card.work(milliseconds)
            mark()
        card.work(1.0)
        return "out"

    out, sample = card.stopwatch().time(run)
    assert card.said == [
        *("flush", "wait", "record", "record", "work", "record", "work", "record", "work"),
        *("record", "synchronize"),
    ]
    assert out == "out"
    assert sample.seconds == pytest.approx(6e-3)
    assert sample.launches == pytest.approx((2e-3, 3e-3))
    assert sample.host_seconds >= 0.0


def test_who_makes_no_marks_has_no_launches():
    card = FakeGpu()
    _, sample = card.stopwatch().time(lambda mark: card.work(2.0))
    assert sample.launches == ()
    assert WallStopwatch().time(lambda mark: None)[1].launches == ()
