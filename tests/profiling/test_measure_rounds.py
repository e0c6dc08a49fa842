"""Interleaved rounds: who runs when, what is timed, and which rounds count."""

import gc
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetune.profiling.measure.rounds import WAITING, interleave, memberships, take_rounds
from hetune.profiling.measure.timing import Timing

ROUNDS = st.dictionaries(st.text("abc", min_size=1), st.integers(1, 9), max_size=6)


@given(ROUNDS)
def test_each_name_takes_part_as_often_as_asked_and_at_most_once_a_round(rounds):
    plan = memberships(rounds)
    assert len(plan) == max(rounds.values(), default=0)
    assert Counter(name for members in plan for name in members) == Counter(rounds)
    assert all(len(set(members)) == len(members) for members in plan)


def test_a_name_with_few_rounds_takes_part_all_along():
    plan = memberships({"quick": 9, "slow": 3})
    assert [i for i, members in enumerate(plan) if "slow" in members] == [0, 3, 6]


def orders(seed: int) -> list[str]:
    calls: list[str] = []
    runs = {name: (lambda name=name: calls.append(name)) for name in "abcd"}
    interleave(runs, 8, seed=seed)
    return ["".join(calls[i : i + 4]) for i in range(0, len(calls), 4)]


def test_every_candidate_runs_once_per_round_in_changing_order():
    assert {"".join(sorted(order)) for order in orders(1)} == {"abcd"}
    assert len(set(orders(1))) > 1
    assert orders(1) == orders(1) != orders(2)


def test_only_the_run_is_timed():
    now = [0.0]

    def takes(seconds: float) -> Callable[..., None]:
        def call(*_: object) -> None:
            now[0] += seconds

        return call

    runs = {"a": takes(1.0), "b": takes(2.0)}
    times = interleave(runs, {"a": 4, "b": 2}, progress=takes(100.0), clock=lambda: now[0])
    assert times == {"a": Timing((1.0,) * 4), "b": Timing((2.0,) * 2)}


def test_progress_comes_before_each_run():
    order: list[str] = []
    interleave(
        {"a": lambda: order.append("run")},
        2,
        progress=order.append,
        clock=lambda: order.append("clock") or 0.0,
    )
    assert order == ["a", "clock", "run", "clock"] * 2


def test_each_output_is_dropped_before_the_next_run():
    alive: list[int] = []

    class Output:
        def __init__(self) -> None:
            assert not alive
            alive.append(1)

        def __del__(self) -> None:
            alive.clear()

    interleave({"a": Output, "b": Output}, 3)
    assert not alive


def test_garbage_is_collected_between_rounds_only():
    assert gc.isenabled()
    seen: list[bool] = []
    interleave({"a": lambda: seen.append(gc.isenabled())}, 1)
    assert seen == [False]
    assert gc.isenabled()


def test_garbage_is_collected_again_after_a_failure():
    with pytest.raises(ZeroDivisionError):
        interleave({"a": lambda: 1 / 0}, 1)
    assert gc.isenabled()


@pytest.mark.parametrize("rounds", [0, {"a": 0}, {"a": 3, "b": -1}])
def test_no_rounds(rounds):
    with pytest.raises(ValueError, match="measure nothing"):
        interleave({"a": int, "b": int}, rounds)


def test_no_candidates():
    assert interleave({}, 3) == {}


def test_median_and_spread():
    timing = Timing((4.0, 1.0, 3.0, 2.0, 10.0))
    assert (timing.median, timing.minimum, timing.iqr) == (3.0, 1.0, 2.0)
    assert Timing((1.0,)).iqr == 0.0


class Stick:
    """A yardstick that reads what it is told, and then always the last of it."""

    def __init__(self, *readings: float) -> None:
        self._readings = iter(readings)
        self._last = 1.0

    def read(self) -> float:
        self._last = next(self._readings, self._last)
        return self._last

    def drift(self, before: float, after: float) -> float:
        return max(before, after) / min(before, after) - 1


def counter() -> Callable[[], int]:
    """A candidate whose sample is the number of times that it ran."""
    counts: Iterator[int] = iter(range(100))
    return lambda: next(counts)


def taken(stick: Stick, rounds: int = 3, repeats: int = 5) -> tuple[tuple[int, ...], float, int]:
    found = take_rounds({"a": counter()}, rounds, yardstick=stick, repeats=repeats)
    return found.samples["a"], round(found.drift["a"], 6), found.repeated


def test_rounds_count_while_the_machine_is_steady():
    assert taken(Stick(1.0, 1.02, 1.05, 1.04)) == ((0, 1, 2), round(1.05 / 1.02 - 1, 6), 0)


def test_a_round_in_which_the_machine_changed_is_repeated():
    # It is slower from the second round on: that round spans the change, its repetition does not.
    assert taken(Stick(1.0, 1.0, 1.2)) == ((0, 2, 3), 0.0, 1)


def test_where_repeats_are_used_up_the_steadiest_attempts_count_and_drift_says_so():
    stick = Stick(1.0, 1.5, 1.8, 2.7, 2.7)
    assert taken(stick, rounds=2, repeats=1) == ((1, 2), 0.5, 1)


def test_repeats_are_bounded_over_all_rounds():
    jumping = Stick(*[1.0, 2.0] * 50)
    samples, drift, repeated = taken(jumping, rounds=3, repeats=4)
    assert (len(samples), drift, repeated) == (3, 1.0, 4)


class Usual(Stick):
    """As `Stick`, but 1 is usual, as it is for the reference kernel after many readings."""

    def drift(self, before: float, after: float) -> float:
        return max(before, after, 1.0) / min(before, after, 1.0) - 1


def waited(stick: Stick, rounds: int = 3, repeats: int = 5) -> tuple[tuple[int, ...], list[float]]:
    slept: list[float] = []
    found = take_rounds(
        {"a": counter()}, rounds, yardstick=stick, repeats=repeats, sleep=slept.append
    )
    return found.samples["a"], slept


def test_a_machine_that_stalls_is_waited_for_before_a_round_is_repeated():
    # The stall is longer than all repeats, and over at the third look.
    samples, slept = waited(Usual(1.0, 100.0, 90.0, 80.0, 1.0), repeats=2)
    assert samples == (1, 2, 3)
    assert slept == sorted(slept)
    assert len(slept) == 3


def test_a_machine_that_is_a_little_slower_is_not_waited_for():
    assert waited(Usual(1.0, 1.5)) == ((0, 6, 7), [])


def test_no_candidate_is_at_work_while_the_machine_is_waited_for():
    told: list[str] = []
    take_rounds(
        {"a": counter()},
        1,
        yardstick=Usual(1.0, 100.0, 100.0, 1.0),
        repeats=1,
        progress=told.append,
        sleep=lambda seconds: told.append("sleep"),
    )
    assert told == ["a", WAITING, "sleep", WAITING, "sleep", "a"]


def test_waiting_for_a_machine_that_stalls_for_good_is_bounded():
    samples, slept = waited(Usual(1.0, 100.0), rounds=9)
    assert len(samples) == 9
    assert 3 < sum(slept) < 3.5


def test_where_nothing_is_repeated_nothing_is_waited_for():
    assert waited(Usual(1.0, 1.0, 1.0, 100.0), repeats=0) == ((0, 1, 2), [])


def test_a_candidate_that_drops_out_has_no_samples_and_the_others_all():
    runs = iter([1, None])
    found = take_rounds({"a": counter(), "b": lambda: next(runs)}, 4)
    assert found.samples == {"a": (0, 1, 2, 3)}
    assert found.drift == {"a": 0.0}


def test_drift_is_that_of_a_candidate_s_own_rounds():
    found = take_rounds(
        {"a": counter(), "b": counter()}, {"a": 2, "b": 1}, yardstick=Stick(1.0, 1.0, 1.5)
    )
    assert found.drift == {"a": 0.5, "b": 0.0}
