"""What the benchmarks make of times: number of rounds, statistics."""

import math

import pytest
from _measure import MIN_ROUNDS, as_json, geometric_mean, rounds_within

from hetune.profiling.measure.timing import Timing


@pytest.mark.parametrize(
    ("seconds", "rounds", "budget", "expected"),
    [
        (0.0, 7, 1.0, 7),
        (0.1, 7, 100.0, 7),
        (1.0, 7, 5.0, 5),
        (10.0, 7, 5.0, MIN_ROUNDS),
        (10.0, 2, 5.0, 2),  # never more than asked for
    ],
)
def test_rounds_keep_to_the_budget(seconds, rounds, budget, expected):
    assert rounds_within(seconds, rounds, budget) == expected


def test_times_are_written_in_milliseconds():
    assert as_json(Timing((0.003, 0.001, 0.002, 0.100))) == {
        "times_ms": [3.0, 1.0, 2.0, 100.0],
        "median_ms": 2.5,
        "min_ms": 1.0,
        "iqr_ms": 25.5,
    }


def test_geometric_mean():
    assert geometric_mean([1.0, 4.0]) == pytest.approx(2.0)
    assert math.isnan(geometric_mean([]))
