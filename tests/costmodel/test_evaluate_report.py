"""Models judged on graph families that they were not trained on."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hetune.costmodel.evaluate.metrics import FIXED, ORACLE
from hetune.costmodel.evaluate.points import Points, merged, predict_launches
from hetune.costmodel.evaluate.report import (
    MODEL,
    Report,
    cross_validate,
    evaluate,
    family_folds,
    judge,
)
from hetune.variants.errors import InputError
from hetune.variants.runtime.launch_columns import COLUMNS
from hetune.variants.runtime.roofline import MachineModel

from ._judged import problem


class Model:
    """Predicts the same seconds for everything, and remembers what it was fitted to."""

    def __init__(self, training):
        self.families = {p.family for p in training}

    def choose(self, problem, machine=None):
        assert problem.family not in self.families
        return problem.candidates[0].variant

    def predict(self, launches, machine):
        assert launches.columns.shape == (len(launches.families), len(COLUMNS))
        return np.full(len(launches.families), 2.0)


def problems():
    return [
        problem(
            {"a": 1.0 + (number % 2), "b": 1.5, "vanilla/b1024": 4.0},
            graph=f"{family}{number}",
            family=family,
            layer=layer,
            d_out=d_out,
            nodes=100 * (number + 1),
        )
        for family in ("grid", "hub", "skew")
        for number in range(2)
        for layer in ("rgcn", "hgt")
        for d_out in (32, 64)
    ]


def test_every_family_is_held_out_in_turn():
    fitted = []

    def fit(training):
        fitted.append(Model(training))
        return fitted[-1]

    seen = []
    report = cross_validate(problems(), fit, progress=lambda *said: seen.append(said))
    assert [model.families for model in fitted] == [
        {"hub", "skew"}, {"grid", "skew"}, {"grid", "hub"},
    ]  # fmt: skip
    assert seen == [(0, 3, "grid"), (1, 3, "hub"), (2, 3, "skew")]
    assert report.score().problems == len(problems())
    assert report.score().regret == pytest.approx(math.sqrt(2 / 1.5))


def test_outcomes_keep_the_order_of_problems():
    report = cross_validate(problems(), Model, folds=2)
    given = problems()
    assert [(o.graph, o.layer, o.d_out) for o in report.outcomes] == [
        (p.graph, p.program.label, p.program.d_out) for p in given
    ]


def test_best_fixed_is_over_all_problems_in_hindsight():
    report = cross_validate(problems(), Model)
    alone = evaluate(problems(), {})
    regret = alone.score(FIXED).regret
    assert report.score(FIXED).regret == regret == pytest.approx(math.sqrt(2 / 1.5))


@pytest.mark.parametrize(
    ("counts", "folds", "expected"),
    [
        ({"x": 1, "y": 1}, None, (("x",), ("y",))),
        ({"x": 5, "y": 2, "z": 2, "w": 1}, 2, (("x",), ("y", "z", "w"))),
        ({"x": 1, "y": 3}, 9, (("y",), ("x",))),
    ],
)
def test_families_are_dealt_evenly(counts, folds, expected):
    given = [problem({"a": 1.0}, family=name) for name, n in counts.items() for _ in range(n)]
    assert family_folds(given, folds) == expected


def test_one_family_cannot_be_held_out():
    with pytest.raises(InputError, match="1 graph families in 1 folds leave nothing to train on"):
        cross_validate([problem({"a": 1.0}, family="x")], Model)


def test_a_family_on_both_sides_is_refused():
    with pytest.raises(InputError, match=r"same graph families \(grid\): split problems by fam"):
        judge(problems()[:4], problems()[:1], Model)
    with pytest.raises(InputError, match="no problems to train on"):
        judge([], problems(), Model)


def test_judging_others_than_were_trained_on():
    report = judge(problems()[:16], problems()[16:], Model, about={"split": "skew apart"})
    assert {o.family for o in report.outcomes} == {"skew"}
    assert report.names[:3] == (ORACLE, FIXED, "vanilla")
    assert report.names[3] == MODEL
    assert report.about == {"split": "skew apart"}


def test_facets_split_a_report():
    report = cross_validate(problems(), Model)
    assert set(report.by("layer")) == {"rgcn", "hgt"}
    assert set(report.by("widths")) == {"64x32", "64x64"}
    assert set(report.by("family")) == {"grid", "hub", "skew"}
    assert sum(part.score().problems for part in report.by("graph").values()) == len(problems())


def test_a_report_survives_json():
    report = cross_validate(problems(), Model, about={"machine": "m"})
    again = Report.from_json(report.as_json())
    assert again == report
    assert again.scores == report.scores


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "this is no evaluation report"),
        ("[]", "this is no evaluation report"),
        ("[" * 100_000, r"this is no evaluation report \(maximum recursion depth"),
        ('{"schema": 1, "points": ' + '{"a":' * 100_000, "this is no evaluation report"),
        ('{"schema": 1}', r"this is no evaluation report \('points'\)"),
        ('{"schema": 7}', "a report of version 7, where 1 is read"),
    ],
)
def test_what_is_no_report_is_refused(text, message):
    with pytest.raises(InputError, match=message):
        Report.from_json(text)


def test_launches_shared_by_variants_are_one_point():
    same = problem({"a": 1.0, "b": 3.0})
    found = predict_launches(Model([]), [same], MachineModel())
    assert found == {"fused": Points(measured=(2.0,), predicted=(2.0,))}


def test_errors_are_factors_either_way():
    points = Points(measured=(1.0, 1.0, 1.0), predicted=(0.5, 1.0, 4.0))
    assert points.errors.tolist() == pytest.approx([2, 1, 4])
    assert points.median_error == pytest.approx(1.0)
    assert points.share_within(2.001) == pytest.approx(2 / 3)


def test_many_points_are_thinned_out():
    many = Points(tuple(float(i) for i in range(1, 5001)), (1.0,) * 5000)
    kept = merged([{"fused": many}, {"product": many}, {"fused": many}])
    assert list(kept) == ["fused", "product"]
    assert 2000 < len(kept["fused"].measured) <= 3000
    assert max(kept["fused"].measured) > 4990
