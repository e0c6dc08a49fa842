"""Learning curves: how units are counted, and what is drawn of them."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("matplotlib")

import active
from _active_curve import (
    STRATEGIES,
    Simulation,
    falling,
    interval,
    levels_of,
    overall,
    plot,
    ratios,
    units_needed,
)

from hetune.costmodel.data import CandidateSample, LaunchSample, Problem
from hetune.costmodel.features.graph import NAMES as GRAPH_FEATURES
from hetune.profiling.store.store import Store
from hetune.variants.runtime.roofline import MachineModel
from hetune.variants.runtime.table import COLUMNS

SIZES = (10, 20, 40, 80)


def problem(number: int, family: str) -> Problem:
    """Four variants, whose times grow with their only launch's work."""
    candidates = []
    for place in range(4):
        work = 1e6 * (number + 1) * (1 + place / 2)
        columns = tuple(work if name.endswith(("flops", "bytes")) else 1.0 for name in COLUMNS)
        launches = (LaunchSample("sums", columns, 1e-9 * work),)
        candidates.append(CandidateSample(f"v{place}", 1e-9 * work, 0.0, launches))
    features = (1.0,) * len(GRAPH_FEATURES)
    return Problem(f"g{number}", family, features, "rgcn", 8, 8, 1, 2, "m", tuple(candidates))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([4.0, 3.0, 1.0], [4.0, 3.0, 1.0]),
        ([3.0, 4.0, 1.0], [3.5, 3.5, 1.0]),
        ([1.0, 2.0, 3.0], [2.0, 2.0, 2.0]),
        ([5.0, 1.0, 3.0, 0.0], [5.0, 2.0, 2.0, 0.0]),
    ],
)
def test_a_falling_curve_is_the_nearest_one(values, expected):
    assert falling(values).tolist() == expected


@pytest.mark.parametrize(
    ("level", "units"),
    [(1.4, 10.0), (1.3, 10.0), (1.2, 20.0), (1.1, np.sqrt(20 * 40)), (1.0, 40.0), (0.9, None)],
)
def test_units_needed_lie_between_the_points(level, units):
    regrets = np.array([1.3, 1.2, 1.0, 1.0])
    found = units_needed(SIZES, regrets, level)
    assert found == (None if units is None else pytest.approx(units))


def test_a_ratio_is_taken_at_each_level_that_chance_comes_down_to():
    uniform = np.array([1.3, 1.2, 1.2, 1.1])
    found = ratios(SIZES, uniform, np.array([1.3, 1.1, 1.05, 1.05]))
    assert [level["uniform_units"] for level in found] == [20, 80]
    assert [level["ratio"] for level in found] == pytest.approx([0.707, 0.25], abs=0.01)
    assert ratios(SIZES, uniform, uniform)[0]["ratio"] == 1
    never = ratios(SIZES, uniform, np.full(4, 1.3))
    assert [level["active_units"] for level in never] == [None, None]
    assert [level["ratio"] for level in never] == [4, 1]


def test_the_share_has_a_spread_over_seeds():
    slow = [1.3, 1.2, 1.1, 1.05]
    curves = {"uniform": [slow, slow], "active": [slow, [1.2, 1.1, 1.05, 1.05]]}
    low, high = interval(SIZES, curves)
    assert low < overall(levels_of(SIZES, curves)) < high
    assert (low, high) == pytest.approx((0.5, 1))


@pytest.mark.parametrize("ties", [True, False])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_with_every_unit_revealed_all_orders_know_the_same(strategy, ties):
    pool = [problem(number, f"f{number % 3}") for number in range(6)]
    simulation = Simulation(pool, [problem(8, "held out")], MachineModel(), ties=ties)
    curve = simulation.curve(strategy, [8, simulation.units], seed=1)
    assert simulation.units == 24
    assert len(curve) == 2
    assert all(regret >= 1 for regret in curve)
    assert curve == simulation.curve(strategy, [8, simulation.units], seed=1)


def test_the_curve_is_drawn(tmp_path):
    curves = {name: [[1.3, 1.2, 1.1, 1.05], [1.4, 1.2, 1.1, 1.06]] for name in STRATEGIES}
    path = plot(SIZES, curves, 1.02, tmp_path / "new" / "curve.png")
    assert path.read_bytes().startswith(b"\x89PNG")


def test_a_store_that_holds_too_little_is_told(tmp_path, capsys):
    path = tmp_path / "store.db"
    Store.open(path).close()
    assert active.main(["--store", str(path), "--out", str(tmp_path / "active.json")]) == 0
    assert "holds too little" in " ".join(capsys.readouterr().out.split())
    assert not (tmp_path / "active.json").exists()


def test_real_families_are_judged_where_there_are_any_else_generated_ones_in_turn():
    training = [problem(number, f"f{number % 6}") for number in range(12)]
    real = [problem(20, "real/web")]
    assert active._parts(training, real, 0) == (training, real)
    pools = [active._parts(training, [], seed) for seed in range(4)]
    for pool, held_out in pools:
        assert len({p.family for p in held_out}) == 2
        assert not {p.family for p in pool} & {p.family for p in held_out}
    assert len({tuple(p.graph for p in held_out) for _, held_out in pools}) > 1
