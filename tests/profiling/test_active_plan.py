"""What is measured next: which units, and which never."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hetune.costmodel.features.graph import NAMES as GRAPH_FEATURES
from hetune.costmodel.problems import CandidateSample, LaunchSample, Problem
from hetune.profiling.active.planner import Planner, improvements
from hetune.variants.frontend.presets import labeled_preset
from hetune.variants.runtime.launch_columns import COLUMNS
from hetune.variants.runtime.roofline import MachineModel

from ._launch_sums import of_measured

MACHINE = MachineModel()
SLOWDOWNS = (1.0, 1.02, 1.05, 3.0, 4.0, 5.0)
"""Times of the variants of every problem, by the fastest one's."""


def problem(number: int) -> Problem:
    """Variants of one launch each, whose time is in proportion to the floats that it multiplies."""
    candidates = []
    for place, slowdown in enumerate(SLOWDOWNS):
        work = 1e6 * (number + 1) * slowdown
        columns = tuple(work if name.endswith(("flops", "bytes")) else 1.0 for name in COLUMNS)
        seconds = 1e-9 * work
        launches = (LaunchSample("sums", columns, seconds),)
        candidates.append(CandidateSample(f"v{place}", seconds, 0.01 * seconds, launches))
    return Problem(
        graph=f"g{number}",
        family=f"f{number % 4}",
        graph_features=(1.0,) * len(GRAPH_FEATURES),
        program=labeled_preset("rgcn", 32, 32),
        threads=2,
        machine="m",
        candidates=tuple(candidates),
    )


PROBLEMS = tuple(problem(number) for number in range(12))
VIEWS = tuple(of_measured(each, MACHINE) for each in PROBLEMS)


def planner(seed: int = 0) -> Planner:
    return Planner(VIEWS, MACHINE, seed=seed)


def left(free: bool = True) -> list[np.ndarray]:
    return [np.full(len(SLOWDOWNS), free) for _ in VIEWS]


KNOWN = left(free=False)


def test_a_unit_near_the_best_or_unsure_is_worth_more():
    logs = [[0.0, 0.05, 0.05, 1.0], [0.01, 0.08, 0.02, 1.01], [-0.01, 0.02, 0.08, 0.99]]
    worth = improvements(np.exp(np.array(logs)))
    assert worth[1] == pytest.approx(worth[2])
    assert worth[0] > worth[1] > worth[3]
    sure, unsure = np.array([[0.0, 0.2], [0.0, 0.21]]), np.array([[0.0, 0.1], [0.0, 0.31]])
    assert improvements(np.exp(unsure))[1] > improvements(np.exp(sure))[1]


def test_an_improvement_is_that_of_the_normal_distribution():
    logs = np.array([[0.0, 0.1], [0.0, 0.3]])
    draws = np.random.default_rng(0).normal(0.2, np.sqrt(0.02), 400_000)
    expected = np.maximum(-draws, 0).mean()
    assert improvements(np.exp(logs))[1] == pytest.approx(expected, rel=0.03)


def test_members_that_agree_leave_nothing_to_gain():
    worth = improvements(np.array([[1.0, 2.0], [1.0, 2.0]]))
    assert worth == pytest.approx([0.0, 0.0], abs=1e-3)
    assert (worth >= 0).all()


def test_one_member_is_as_unsure_of_all():
    worth = improvements(np.array([[1.0, 1.1, 1.3, 5.0]]))
    assert (np.diff(worth) < 0).all()
    assert worth[1] > worth[0] / 2


@pytest.mark.parametrize("measured", [(), PROBLEMS])
def test_variants_near_the_best_are_preferred(measured):
    chosen = planner().next(measured, KNOWN, left(), 24)
    near = [place for _, place in chosen if SLOWDOWNS[place] < 2]
    assert len(near) > len(chosen) * 2 / 3


def test_units_are_spread_over_problems():
    chosen = planner().next(PROBLEMS, KNOWN, left(), 24)
    assert len({view for view, _ in chosen}) > 6


@pytest.mark.parametrize("measured", [(), PROBLEMS])
def test_every_unit_is_drawn_once_and_none_that_is_not_left(measured):
    free = left()
    for view in free[:6]:
        view[::2] = False
    chosen = planner().next(measured, KNOWN, free, 1000)
    assert len(chosen) == len(set(chosen)) == sum(int(view.sum()) for view in free)
    assert all(free[view][place] for view, place in chosen)


@pytest.mark.parametrize("measured", [(), PROBLEMS])
def test_without_units_none_is_drawn(measured):
    assert planner().next(measured, KNOWN, left(free=False), 10) == []
    assert Planner((), MACHINE).next(measured, [], [], 10) == []
    assert planner().next(measured, KNOWN, left(), 0) == []


@pytest.mark.parametrize("measured", [(), PROBLEMS])
def test_the_same_seed_draws_the_same(measured):
    draws = [planner(seed).next(measured, KNOWN, left(), 10) for seed in (0, 0, 1)]
    assert draws[0] == draws[1] != draws[2]


def test_a_unit_is_worth_the_time_of_its_launches_that_are_not_known():
    def launch(name: float, work: float) -> LaunchSample:
        columns = tuple(work if c.endswith(("flops", "bytes")) else name for c in COLUMNS)
        return LaunchSample("sums", columns, 1e-9 * work)

    common, long, brief = launch(1, 3e9), launch(2, 3e9), launch(3, 1.0)
    several = replace(
        PROBLEMS[0],
        candidates=tuple(
            CandidateSample(name, sum(each.seconds for each in launches), 0.0, launches)
            for name, launches in {
                "a": (common, long),
                "b": (common, long),
                "c": (common, brief),
                "d": (launch(4, 4e9),),
            }.items()
        ),
    )
    view = of_measured(several, MACHINE)
    known = np.array([True, False, False, False])
    assert view.share(0, np.ones(len(view.roofline), np.bool_)) == 1
    fresh = np.ones(len(view.roofline), np.bool_)
    fresh[view.rows_of(0)] = False
    assert view.share(1, fresh) == 0
    assert 0 < view.share(2, fresh) < 0.01
    assert view.share(3, fresh) == 1
    for seed in range(20):
        draw = Planner((view,), MACHINE, seed=seed).next
        assert draw((), [known], [~known], 1) == [(0, 3)]
        two = draw((), [np.zeros(4, np.bool_)], [np.ones(4, np.bool_)], 2)
        assert {place for _, place in two} != {0, 1}


def test_units_differ_from_batch_to_batch():
    assert planner().next(PROBLEMS[:6], KNOWN, left(), 10) != planner().next(
        PROBLEMS[:7], KNOWN, left(), 10
    )
