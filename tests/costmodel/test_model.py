"""Cost models: what they are fitted to, what they predict, and what else they say."""

from __future__ import annotations

import dataclasses
import logging

import numpy as np
import pytest

from hetune.costmodel.features import graph, launch
from hetune.costmodel.model import train
from hetune.costmodel.model.cost_model import CostModel
from hetune.costmodel.model.manifest import TrainingData
from hetune.costmodel.model.overhead import Overhead
from hetune.costmodel.model.train import HeldOut
from hetune.costmodel.model.training_rows import TrainingRows, Weighting
from hetune.costmodel.problems import LaunchBatch, Problem
from hetune.variants.errors import ModelError
from hetune.variants.runtime.launch_columns import COLUMNS
from hetune.variants.runtime.roofline import roofline_seconds

from ._synthetic import (
    FINGERPRINT,
    KERNELS,
    LAUNCH_SECONDS,
    MACHINE,
    RUN_SECONDS,
    problems,
    true_seconds,
)

NEW = problems(graph_families=3, seed=1)


@pytest.fixture(scope="module")
def model() -> CostModel:
    return CostModel.fit(problems(graph_families=10), MACHINE, FINGERPRINT, folds=3)


def launches_of(problem: Problem) -> tuple[tuple[str, ...], np.ndarray, np.ndarray, int]:
    """Families, columns, graph features and threads of a problem's launches."""
    launches = [each for c in problem.candidates for each in c.launches]
    columns = np.array([each.columns for each in launches])
    shape = np.array(problem.graph_features)
    return tuple(each.family for each in launches), columns, shape, problem.threads


def test_predicts_launches_on_graphs_of_new_families(model):
    for problem in NEW:
        families, columns, shape, threads = launches_of(problem)
        found = model.predict(LaunchBatch(families, columns, shape, threads), MACHINE)
        pairs = zip(families, columns, strict=True)
        expected = [true_seconds(name, row[None])[0] for name, row in pairs]
        assert found.dtype == np.float64
        assert np.abs(np.log(found / expected)).max() < 0.5


def test_the_order_and_number_of_rows_change_nothing(model):
    families, columns, shape, threads = launches_of(NEW[0])
    together = model.predict(LaunchBatch(families, columns, shape, threads), MACHINE)
    alone = [
        model.predict(LaunchBatch((name,), row[None], shape, threads), MACHINE)[0]
        for name, row in zip(families, columns, strict=True)
    ]
    np.testing.assert_array_equal(together, alone)


def test_a_variant_costs_its_launches_and_what_starting_them_costs(model):
    problem = NEW[0]
    totals = model.totals(problem)
    assert list(totals) == [candidate.variant for candidate in problem.candidates]
    families, columns, shape, threads = launches_of(problem)
    count = len(problem.candidates[0].launches)
    first = model.predict(LaunchBatch(families[:count], columns[:count], shape, threads), MACHINE)
    expected = first.sum() + count * model.launch_seconds + model.run_seconds
    assert totals[problem.candidates[0].variant] == pytest.approx(expected)
    assert model.launch_seconds == pytest.approx(LAUNCH_SECONDS)
    assert model.run_seconds == pytest.approx(RUN_SECONDS)


def test_choices_on_new_families_lose_little(model):
    regrets = []
    for problem in NEW:
        totals = model.totals(problem)
        chosen = min(problem.candidates, key=lambda c: totals[c.variant])
        regrets.append(chosen.seconds / problem.best.seconds)
    assert np.exp(np.mean(np.log(regrets))) < 1.1


def test_both_targets_are_tried_and_the_better_is_kept(model):
    metrics = model.manifest.metrics
    assert metrics.keys() == {"log-seconds", "roofline-ratio", "roofline"}
    target = min(("log-seconds", "roofline-ratio"), key=lambda name: metrics[name]["regret"])
    assert model.manifest.target == target
    assert metrics[target]["regret"] < metrics["roofline"]["regret"]
    assert {part.regressor.target for part in model.families.values()} == {target}


def test_the_same_problems_give_the_same_model_in_any_order():
    few = problems(graph_families=3)
    namesake = dataclasses.replace(
        few[1], graph=few[0].graph, program=few[0].program, graph_fingerprint="other"
    )
    few.append(namesake)  # presets of several sizes draw other graphs of the same name
    one, two = (
        CostModel.fit(given, MACHINE, FINGERPRINT, target="roofline-ratio", folds=2)
        for given in (few, few[::-1])
    )
    for name in KERNELS:
        assert one.families[name].regressor.dump() == two.families[name].regressor.dump()
        assert one.families[name].quantiles.dump() == two.families[name].quantiles.dump()
    assert TrainingData.of(few) == TrainingData.of(few[::-1])
    assert TrainingData.of(few).digest != TrainingData.of(few[1:]).digest


def test_intervals_hold_the_prediction_and_most_launches_of_new_families(model):
    inside = []
    for problem in problems(graph_families=8, seed=2):
        families, columns, shape, threads = launches_of(problem)
        low, high = model.interval(LaunchBatch(families, columns, shape, threads), MACHINE).T
        predicted = model.predict(LaunchBatch(families, columns, shape, threads), MACHINE)
        assert (low <= predicted).all()
        assert (predicted <= high).all()
        measured = np.array([each.seconds for c in problem.candidates for each in c.launches])
        inside.append(((low <= measured) & (measured <= high)).mean())
    assert np.mean(inside) == pytest.approx(0.8, abs=0.1)


def test_contributions_add_up_to_the_logarithm_of_the_prediction(model):
    families, columns, shape, threads = launches_of(NEW[0])
    found = model.contributions(
        LaunchBatch((*families[:-1], "new"), columns, shape, threads), MACHINE
    )
    predicted = model.predict(
        LaunchBatch((*families[:-1], "new"), columns, shape, threads), MACHINE
    )
    assert found.names == launch.NAMES
    np.testing.assert_allclose(found.base + found.values.sum(axis=1), np.log(predicted), atol=1e-4)
    assert not found.values[-1].any()


def test_the_roofline_model_answers_for_kernel_families_that_are_new(model):
    families, columns, shape, threads = launches_of(NEW[0])
    names = ("unheard", *families[1:])
    assert model.lacks(names) == ("unheard",)
    found = model.predict(LaunchBatch(names, columns, shape, threads), MACHINE)
    roofline = roofline_seconds(columns[:1], MACHINE, threads)
    assert found[0] == roofline[0]
    bounds = model.interval(LaunchBatch(names, columns, shape, threads), MACHINE)
    assert bounds[0] == pytest.approx([roofline[0] / 2, roofline[0] * 2])


def test_a_kernel_family_with_few_launches_is_left_to_the_roofline_model(caplog):
    def rare(problem: Problem, wanted: bool) -> Problem:
        candidates = tuple(
            dataclasses.replace(
                c,
                launches=tuple(
                    dataclasses.replace(each, family="traversal")
                    if each.family == "fused" and not wanted
                    else each
                    for each in c.launches
                ),
            )
            for c in problem.candidates
        )
        return dataclasses.replace(problem, candidates=candidates)

    few = [rare(p, number == 0) for number, p in enumerate(problems(graph_families=3))]
    with caplog.at_level(logging.WARNING):
        model = CostModel.fit(few, MACHINE, FINGERPRINT, target="roofline-ratio", folds=2)
    assert model.families.keys() == {"product", "traversal"}
    assert "kernel family 'fused' are too few" in caplog.text


def test_without_folds_there_are_no_scores_and_intervals_are_wide():
    model = CostModel.fit(problems(), MACHINE, FINGERPRINT, target="log-seconds", folds=0)
    assert model.manifest.metrics.keys() == {"roofline"}
    families, columns, shape, threads = launches_of(NEW[0])
    predicted = model.predict(LaunchBatch(families, columns, shape, threads), MACHINE)
    bounds = model.interval(LaunchBatch(families, columns, shape, threads), MACHINE)
    np.testing.assert_allclose(bounds, predicted[:, None] * [0.5, 2])


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ([(2, 3)] * 5, Overhead(RUN_SECONDS, LAUNCH_SECONDS)),
        ([(2, 3), (1, 2), (2, 5)], Overhead(RUN_SECONDS, LAUNCH_SECONDS)),
        ([(2, 2)] * 5, Overhead(RUN_SECONDS + 2 * LAUNCH_SECONDS, 0.0)),
    ],
)
def test_what_runs_take_beyond_their_launches(counts, expected):
    """Launches' share is told by variants that differ in their number; the rest is the run's."""
    found = Overhead.fit([with_launches(*pair) for pair in counts])
    assert found.run_seconds == pytest.approx(expected.run_seconds)
    assert found.launch_seconds == pytest.approx(expected.launch_seconds)


def test_a_disturbed_run_does_not_matter_and_nothing_is_negative():
    disturbed = with_launches(1, 9, extra=1.0)
    found = Overhead.fit([disturbed, *[with_launches(2, 3)] * 4])
    assert found.run_seconds == pytest.approx(RUN_SECONDS)
    assert Overhead.fit([with_launches(2, 3, extra=-1.0)]) == Overhead(0.0, 0.0)


def with_launches(*counts: int, extra: float = 0.0) -> Problem:
    """A problem with one variant of each number of launches; the last takes `extra` seconds."""
    launch_sample = ONE.candidates[0].launches[0]
    candidates = [
        dataclasses.replace(
            ONE.candidates[0],
            seconds=count * (launch_sample.seconds + LAUNCH_SECONDS) + RUN_SECONDS,
            launches=(launch_sample,) * count,
        )
        for count in counts
    ]
    candidates[-1] = dataclasses.replace(candidates[-1], seconds=candidates[-1].seconds + extra)
    return dataclasses.replace(ONE, candidates=tuple(candidates))


ONE, *_ = MANY = problems(graph_families=2, graphs=1)


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        ([], {}, "no measured problems"),
        ([ONE], {}, "two measured inputs"),
        ([ONE], {"folds": 0, "target": "log-seconds"}, "are too few"),
        (MANY, {"folds": 0}, "name it"),
        (MANY, {"target": "seconds"}, "choose auto, log-seconds, roofline-ratio"),
        ([ONE, dataclasses.replace(ONE, machine="other")], {}, "of 2 machines"),
        ([dataclasses.replace(p, machine="other") for p in MANY], {}, "measured on machine other"),
        ([dataclasses.replace(ONE, candidates=())], {}, "without launches"),
        (
            [
                dataclasses.replace(
                    ONE, candidates=(dataclasses.replace(ONE.candidates[0], seconds=0.0),)
                )
            ],
            {},
            "not a positive number",
        ),
    ],
)
def test_refuses_what_it_cannot_be_fitted_to(given, options, message):
    with pytest.raises(ModelError, match=message):
        CostModel.fit(given, MACHINE, FINGERPRINT, **options)


@pytest.mark.parametrize("weighting", Weighting)
def test_launches_count_as_the_weighting_says(weighting):
    rows = TrainingRows.of([ONE, *problems(graph_families=1, graphs=1, seed=5)], MACHINE, weighting)
    assert rows.weights.mean() == pytest.approx(1)
    own = rows.weights[rows.problems[0].rows]
    counted = np.array([len(rows.problems[0].rows), rows.weights.sum(), own.sum()])
    assert np.isfinite(counted).all()
    by_problem = [rows.weights[np.unique(p.rows)].sum() for p in rows.problems]
    if weighting is Weighting.EVEN:
        uses = np.bincount(np.concatenate([p.rows for p in rows.problems]))
        np.testing.assert_allclose(rows.weights / rows.weights[0], uses / uses[0])
    else:
        np.testing.assert_allclose(by_problem, np.mean(by_problem))


def test_slow_variants_count_less():
    few = problems(graph_families=2, graphs=1)
    rows = TrainingRows.of(few, MACHINE, Weighting.REGRET)
    even = TrainingRows.of(few, MACHINE, Weighting.PROBLEM)
    gain = rows.weights / even.weights
    problem = rows.problems[0]
    fast, slow = problem.seconds.argmin(), problem.seconds.argmax()
    longest = [
        max(problem.rows[problem.owners == c], key=lambda row: rows.seconds[row])
        for c in (fast, slow)
    ]
    assert gain[longest[0]] > gain[longest[1]]


def test_launches_that_variants_share_are_one_row():
    candidate = ONE.candidates[0]
    twice = dataclasses.replace(
        candidate,
        variant="again",
        launches=tuple(dataclasses.replace(e, seconds=4 * e.seconds) for e in candidate.launches),
    )
    rows = TrainingRows.of(
        [dataclasses.replace(ONE, candidates=(candidate, twice))], MACHINE, Weighting.EVEN
    )
    expected = [2 * each.seconds for each in candidate.launches]
    np.testing.assert_allclose(rows.seconds, expected)
    assert rows.X.shape == (len(expected), len(launch.NAMES))
    assert len(COLUMNS) == len(ONE.candidates[0].launches[0].columns)
    assert len(graph.NAMES) == len(ONE.graph_features)


def test_what_cores_fetch_from_each_other_is_no_part_of_what_trees_see():
    problem = problems()[0]
    model = CostModel.fit(problems(), MACHINE, FINGERPRINT, target="roofline-ratio", folds=0)
    columns = np.array([la.columns for c in problem.candidates for la in c.launches])
    columns[:, COLUMNS.index("pair_gathers")] = columns[:, COLUMNS.index("gathers")] = 1e4
    machines = [dataclasses.replace(MACHINE, exchange_seconds=seconds) for seconds in (0.0, 1e-3)]
    assert (
        roofline_seconds(columns, machines[0], 2) < roofline_seconds(columns, machines[1], 2)
    ).any()
    least, most = (
        model.predict(
            LaunchBatch(("fused",) * len(columns), columns, np.array(problem.graph_features), 2),
            machine,
        )
        for machine in machines
    )
    assert (least == most).all()


@pytest.mark.parametrize(("regret", "expected"), [(1.029, "other"), (1.032, "one")])
def test_the_target_with_less_error_is_kept_unless_the_other_has_clearly_less_regret(
    regret, expected
):
    held_out = [HeldOut(name, np.ones(1)) for name in ("one", "other")]
    scores = {"one": {"regret": 1.028, "error": 0.3}, "other": {"regret": regret, "error": 0.2}}
    assert train.best(held_out, scores).target == expected
