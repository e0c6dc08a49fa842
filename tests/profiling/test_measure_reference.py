"""The yardstick: what is read, and what is called drift."""

import pytest
import torch

from hetune.profiling.measure.reference import Reference
from hetune.profiling.measure.stopwatch import WallStopwatch


class Work:
    """Takes as long as it is told, turn by turn."""

    def __init__(self) -> None:
        self.now = 0.0
        self.turns: list[float] = []

    def __call__(self) -> None:
        self.now += self.turns.pop(0)


@pytest.fixture
def work() -> Work:
    return Work()


@pytest.fixture
def reference(work) -> Reference:
    return Reference(work, WallStopwatch(lambda: work.now))


def read(reference: Reference, work: Work, *turns: float) -> float:
    work.turns = list(turns)
    seconds = reference.read()
    assert not work.turns
    return seconds


def test_a_reading_is_the_fastest_turn_after_the_first(reference, work):
    assert read(reference, work, 1.0, 9.0, 5.0, 4.0, 6.0, 4.0, 8.0, 7.0) == 4.0


def test_drift_is_between_two_readings_and_from_what_is_usual(reference, work):
    for seconds in (4.0, 4.0, 4.0, 5.0, 5.0):
        read(reference, work, *[seconds] * 8)
    assert reference.drift(4.0, 4.0) == 0.0
    assert reference.drift(4.0, 5.0) == reference.drift(5.0, 4.0) == 0.25
    # Steady, but slower than usual.
    assert reference.drift(5.0, 5.0) == 0.25
    assert reference.drift(2.0, 5.0) == 1.5


def test_what_is_usual_is_kept_by_number_of_threads(reference, work):
    before = torch.get_num_threads()
    try:
        for threads, seconds in ((1, 8.0), (2, 4.0)):
            torch.set_num_threads(threads)
            read(reference, work, *[seconds] * 8)
            assert reference.drift(seconds, seconds) == 0.0
    finally:
        torch.set_num_threads(before)


def test_the_work_of_its_own_runs_in_any_mode():
    for mode in (torch.no_grad, torch.inference_mode, torch.enable_grad):
        with mode():
            reference = Reference()
            assert reference.read() > 0
    assert reference.read() > 0
