"""Models are judged as the choosers that they are."""

import pytest
from tests.costmodel._synthetic import FINGERPRINT, MACHINE, problems
from tests.costmodel.test_ties import USUAL, with_usual

from hetune.costmodel.evaluate.report import MODEL
from hetune.costmodel.model import cost_model
from hetune.costmodel.model.cost_model import CostModel
from hetune.profiling import train


@pytest.mark.parametrize("tie", [1.12, 1e9])
def test_a_report_is_of_choices_under_the_model_s_tie(monkeypatch, tie):
    monkeypatch.setattr(train, "with_asking", lambda report, *_: report)
    wanted, _ = with_usual(problems(graph_families=8), tie)
    monkeypatch.setattr(cost_model, "tie_of", lambda regrets, device: tie)
    model = CostModel.fit(wanted, MACHINE, FINGERPRINT, target="roofline-ratio", folds=2)
    report = train.judge(model, train.Data(tuple(wanted), FINGERPRINT, MACHINE), folds=2)
    usual = [outcome.picks[MODEL].variant for outcome in report.outcomes].count(USUAL)
    assert (usual == len(wanted)) is (tie > 2)
    assert model.manifest.metrics["roofline-ratio"]["regret"] == pytest.approx(
        report.score().regret
    )
