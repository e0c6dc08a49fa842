"""The measuring harness: order, number of rounds, statistics."""

import math
from collections import Counter

import pytest
from _measure import (
    MIN_ROUNDS,
    Sample,
    geometric_mean,
    interleave,
    rounds_within,
    schedule,
)
from hypothesis import given
from hypothesis import strategies as st

ROUNDS = st.dictionaries(st.text("abc", min_size=1), st.integers(1, 9), max_size=6)


@given(ROUNDS, st.integers(0, 99))
def test_schedule_runs_each_name_as_often_as_asked_and_at_most_once_a_round(rounds, seed):
    plan = schedule(rounds, seed)
    assert len(plan) == max(rounds.values(), default=0)
    assert Counter(name for members in plan for name in members) == Counter(rounds)
    assert all(len(set(members)) == len(members) for members in plan)


def test_schedule_is_shuffled_by_its_seed():
    rounds = dict.fromkeys("abcdefgh", 5)
    assert schedule(rounds, 1) == schedule(rounds, 1)
    assert schedule(rounds, 1) != schedule(rounds, 2)
    assert len({tuple(members) for members in schedule(rounds, 1)}) > 1


def test_schedule_spreads_a_slow_candidate_over_the_rounds():
    plan = schedule({"quick": 9, "slow": 3}, 0)
    assert [i for i, members in enumerate(plan) if "slow" in members] == [0, 3, 6]


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


def test_interleave_times_the_run_alone():
    now = [0.0]

    def clock() -> float:
        return now[0]

    def run(seconds: float):
        def call() -> None:
            now[0] += seconds

        return call

    def progress(name: str) -> None:
        now[0] += 100.0  # must not be counted

    runs = {"a": run(1.0), "b": run(2.0)}
    samples = interleave(runs, {"a": 4, "b": 2}, clock=clock, progress=progress)
    assert samples["a"].seconds == (1.0,) * 4
    assert samples["b"].seconds == (2.0,) * 2


def test_interleave_drops_each_output_before_the_next_run():
    alive = []

    class Output:
        def __init__(self) -> None:
            alive.append(self)

        def __del__(self) -> None:
            gone.append(1)

    gone: list[int] = []

    def run() -> object:
        assert len(gone) == len(counts)
        counts.append(1)
        output = Output()
        alive.clear()
        return output

    counts: list[int] = []
    interleave({"a": run}, {"a": 3})
    assert len(gone) == 3


def test_sample_statistics():
    sample = Sample((0.003, 0.001, 0.002, 0.100))
    assert sample.median == pytest.approx(0.0025)
    assert sample.minimum == 0.001
    assert sample.iqr == pytest.approx(0.0255)
    assert Sample((0.5,)).iqr == 0.0
    assert sample.as_json() == {
        "times_ms": [3.0, 1.0, 2.0, 100.0],
        "median_ms": 2.5,
        "min_ms": 1.0,
        "iqr_ms": 25.5,
    }


def test_geometric_mean():
    assert geometric_mean([1.0, 4.0]) == pytest.approx(2.0)
    assert math.isnan(geometric_mean([]))
