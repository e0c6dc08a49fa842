"""What asking a model takes, in runs of what it chose."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hetune.costmodel.evaluate import prediction_time
from hetune.costmodel.evaluate.metrics import FIXED, ROOFLINE
from hetune.costmodel.evaluate.prediction_time import prediction_seconds, with_prediction_times
from hetune.costmodel.evaluate.report import MODEL, Report, evaluate
from hetune.costmodel.evaluate.tables import comparison_table
from hetune.costmodel.fingerprint import this_machine
from hetune.variants.runtime.roofline import MachineModel

from ._judged import problem

MACHINE = MachineModel()
PROBLEMS = [
    replace(problem({"a": seconds, "b": 3.0}, graph=f"g{number}"), machine=this_machine().digest)
    for number, seconds in enumerate((1.0, 2.0))
]


class Model:
    """Takes the first candidate, and remembers what it was asked about."""

    def __init__(self):
        self.asked = []

    def totals(self, problem, machine=None):
        return {c.variant: float(i) for i, c in enumerate(problem.candidates)}

    def predict(self, launches, machine):
        count = len(launches.families)
        assert launches.columns.shape[0] == count
        self.asked.append((count, launches.graph_features.shape, machine, launches.threads))
        return np.ones(count)


def report_of(problems, model):
    return evaluate(problems, {MODEL: model.totals, ROOFLINE: lambda p: {"b": 1.0}}, {"s": "t"})


@pytest.fixture
def half_a_second(monkeypatch):
    monkeypatch.setattr(prediction_time, "prediction_seconds", lambda *_: 0.5)


def test_prediction_takes_so_many_runs_of_the_pick(half_a_second):
    model = Model()
    before = report_of(PROBLEMS, model)
    assert before.score().overhead_runs is None
    report = with_prediction_times(before, model, PROBLEMS, MACHINE)
    assert [o.picks[MODEL].spent for o in report.outcomes] == [0.5, 0.5]
    assert report.score().overhead_runs == pytest.approx((0.5 / 1 + 0.5 / 2) / 2)
    assert report.score(FIXED).overhead_runs is None
    assert report.score(ROOFLINE).overhead_runs is None
    assert replace(report.score(), overhead_runs=None) == before.score()
    cells = {row[0]: row[-1] for row in comparison_table(report).rows}
    assert (cells[MODEL], cells[FIXED], cells[ROOFLINE]) == ("0.38", "–", "–")
    assert Report.from_json(report.as_json()) == report


def test_launches_are_asked_for_in_one_batch_each_once():
    model = Model()
    [given] = [problem({"a": 1.0, "b": 2.0, "c": 3.0}, work={"a": 1.0, "b": 2.0, "c": 2.0})]
    assert prediction_seconds(model, given, MACHINE) > 0
    features = (len(given.graph_features),)
    assert model.asked == [(2, features, MACHINE, 2)] * 4


def test_runs_of_another_machine_are_no_measure(half_a_second):
    model, elsewhere = Model(), replace(PROBLEMS[1], machine="another")
    report = report_of([PROBLEMS[0], elsewhere], model)
    found = with_prediction_times(report, model, [PROBLEMS[0], elsewhere], MACHINE)
    assert [o.picks[MODEL].spent for o in found.outcomes] == [0.5, None]
    assert found.score().overhead_runs is None


def test_other_problems_are_refused():
    model = Model()
    with pytest.raises(ValueError, match="zip"):
        with_prediction_times(report_of(PROBLEMS, model), model, PROBLEMS[:1], MACHINE)
