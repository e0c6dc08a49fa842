"""Figures of choices, worked out by hand."""

from __future__ import annotations

import math

import pytest

from hetune.costmodel.evaluate import noise
from hetune.costmodel.evaluate.metrics import (
    FIXED,
    ORACLE,
    ROOFLINE,
    Trial,
    noise_floor,
    pick,
)
from hetune.costmodel.evaluate.report import evaluate
from hetune.variants.errors import InputError, VariantError
from hetune.variants.plan.choices import VANILLA

from ._judged import problem

TIMES = {"a": 1.0, "b": 2.0, "vanilla/b1024": 4.0}


@pytest.mark.parametrize(
    ("answer", "variant", "spent"),
    [
        ("b", "b", None),
        ({"a": 3.0, "b": 2.0, "unmeasured": 0.1}, "b", None),
        (Trial("a", 7.0), "a", 7.0),
    ],
)
def test_an_answer_is_an_id_or_predictions_or_a_trial(answer, variant, spent):
    picked = pick(lambda _: answer, problem(TIMES, iqr=0.1))
    assert (picked.variant, picked.seconds, picked.spent) == (variant, TIMES[variant], spent)
    assert picked.error == pytest.approx(0.05 * TIMES[variant])


def test_a_chooser_that_does_not_apply_picks_nothing():
    assert pick(lambda _: None, problem(TIMES)) is None


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("c", r"c was chosen for rgcn 64->64 on g but not measured there: choose among"),
        ({"c": 1.0}, r"no prediction for any of the 3 variants .* predict one of a, b, vanilla"),
    ],
)
def test_a_choice_that_was_not_measured_is_refused(answer, message):
    with pytest.raises(VariantError, match=message):
        pick(lambda _: answer, problem(TIMES))


PROBLEMS = (
    problem({"a": 1.0, "b": 2.0, "vanilla/b1024": 4.0}, graph="g1"),
    problem({"a": 2.0, "b": 1.0, "vanilla/b1024": 4.0}, graph="g2"),
    problem({"a": 1.0, "b": 3.0, "vanilla/b1024": 2.0}, graph="g3"),
)


def scores(**choosers):
    return evaluate(PROBLEMS, choosers).scores


def test_regret_is_time_over_the_least_time():
    b = scores(judged=lambda _: "b")["judged"]
    assert b.problems == 3
    assert b.regret == pytest.approx((2 * 1 * 3) ** (1 / 3))
    assert b.regret_max == 3
    assert 2 < b.regret_p95 < 3
    assert b.top1 == pytest.approx(1 / 3)


def test_the_best_fixed_variant_is_found_in_hindsight():
    found = scores()
    assert found[FIXED].regret == pytest.approx(2 ** (1 / 3))
    assert found[ORACLE].regret == found[ORACLE].top1 == 1


def test_losses_to_the_best_fixed_variant_are_counted_and_the_worst_is_named():
    b = scores(judged=lambda _: "b")["judged"]
    assert b.worse == b.clearly_worse == pytest.approx(2 / 3)
    assert b.worst == 3
    assert b.over_fixed == pytest.approx((1 / 2 * 2 * 1 / 3) ** (1 / 3))


def test_speed_ups_are_over_the_same_problems():
    b = scores(judged=lambda _: "b")["judged"]
    assert b.over_default == pytest.approx((2 * 4 * 2 / 3) ** (1 / 3))
    assert b.over_roofline is None
    named = scores(judged=lambda _: "b", **{ROOFLINE: lambda _: "vanilla/b1024"})
    assert named["judged"].over_roofline == named["judged"].over_default


def test_vanilla_counts_only_where_it_was_measured():
    report = evaluate((*PROBLEMS, problem({"a": 1.0}, graph="g4")), {})
    assert report.score(VANILLA).problems == 3
    assert report.score(ORACLE).problems == 4
    assert evaluate([problem({"a": 1.0})], {}).score(ORACLE).over_default is None


def test_choosing_takes_runs_of_what_was_picked():
    found = scores(
        tried=lambda _: Trial("b", 6.0), known=lambda _: "b", predicted=lambda _: {"b": 1.0}
    )
    assert found["tried"].overhead_runs == pytest.approx((6 / 2 + 6 / 1 + 6 / 3) / 3)
    assert found["known"].overhead_runs is None
    assert found["predicted"].overhead_runs is None


@pytest.mark.parametrize(("iqr", "in_noise"), [(0.0, 0.0), (0.001, 0.0), (0.1, 1.0)])
def test_a_difference_within_noise_is_none(iqr, in_noise):
    close = problem({"a": 1.0, "b": 1.01}, iqr=iqr)
    report = evaluate([close], {"judged": lambda _: "b"})
    assert report.score("judged").in_noise == in_noise
    assert report.score("judged").clearly_worse == 1 - in_noise
    assert report.score("judged").worse == 1


def test_the_margin_is_two_standard_errors_of_a_difference():
    assert noise.margin(1.0, 0.0) == pytest.approx(2)
    assert noise.margin(1.0, 1.0) == pytest.approx(2 * math.sqrt(2))


def test_no_noise_no_floor():
    assert noise.floor(problem({"a": 1.0, "b": 1.0})) == 1


def test_the_floor_rises_with_noise_and_with_ties():
    def floor(times, iqr):
        return noise.floor(problem(times, iqr=iqr))

    tied, apart = {"a": 1.0, "b": 1.0001, "c": 1.0002}, {"a": 1.0, "b": 2.0, "c": 2.0}
    assert 1 < floor(tied, 0.05) < floor(tied, 0.2) < 1.2
    assert floor(apart, 0.05) == 1


def test_names_of_one_run_are_lucky_together_and_as_good_as_each_other():
    named = problem({"a": 1.0, "a again": 1.0, "b": 2.0}, iqr=0.2)
    assert noise.floor(named) == noise.floor(problem({"a": 1.0, "b": 2.0}, iqr=0.2)) == 1
    assert evaluate([named], {"judged": lambda _: "a again"}).score("judged").top1 == 1


def test_the_floor_of_many_is_a_geometric_mean_and_repeatable():
    noisy = [problem({"a": 1.0, "b": 1.001}, graph=name, iqr=0.1) for name in "xyz"]
    first, again = (noise_floor(evaluate(noisy, {}).outcomes) for _ in range(2))
    floors = [noise.floor(p) for p in noisy]
    assert first == again == pytest.approx(math.prod(floors) ** (1 / 3))
    assert len(set(floors)) == 3


def test_nothing_to_judge_is_an_error():
    with pytest.raises(InputError, match="no problems to evaluate on"):
        evaluate([], {})
    with pytest.raises(InputError, match="'nobody' picked nothing"):
        evaluate(PROBLEMS, {}).score("nobody")
