"""Models are judged as the choosers that they are."""

import numpy as np
import pytest
from tests.costmodel._synthetic import FINGERPRINT, MACHINE, problems
from tests.costmodel.test_ties import DEFAULT, with_default

from hetune.costmodel.evaluate.report import MODEL
from hetune.costmodel.model import cost_model, ties
from hetune.costmodel.model.cost_model import CostModel
from hetune.costmodel.registry.model_registry import ModelRegistry
from hetune.profiling.cost_model_training import train
from hetune.variants.errors import InputError


@pytest.mark.parametrize("tie", [1.12, 1e9])
def test_a_report_is_of_choices_under_the_model_s_tie(monkeypatch, tie):
    monkeypatch.setattr(train, "with_prediction_times", lambda report, *_: report)
    nothing = np.zeros(5, bool)
    monkeypatch.setattr(ties, "faster_by_roofline", lambda roofline, default: nothing)
    wanted, _ = with_default(problems(graph_families=8), tie)
    monkeypatch.setattr(cost_model, "tie_of", lambda regrets, device: tie)
    model = CostModel.fit(wanted, MACHINE, FINGERPRINT, target="roofline-ratio", folds=2)
    report = train.judge(model, train.Data(tuple(wanted), (), FINGERPRINT, MACHINE), folds=2)
    usual = [outcome.picks[MODEL].variant for outcome in report.outcomes].count(DEFAULT)
    assert (usual == len(wanted)) is (tie > 2)
    assert model.manifest.metrics["roofline-ratio"]["regret"] == pytest.approx(
        report.score().regret
    )


def test_lists_and_the_card_show_one_regret(tmp_path):
    wanted = problems(graph_families=3)
    data = train.Data(tuple(wanted), ("half of it was unsteady",), FINGERPRINT, MACHINE)
    model = CostModel.fit(wanted, MACHINE, FINGERPRINT, target="roofline-ratio", folds=2)
    report = train.judge(model, data, folds=3)
    assert report.about["measurements"] == "half of it was unsteady"
    registry = ModelRegistry(tmp_path)
    key, card = train.keep(model, data, report, registry)
    [entry] = registry.entries()
    listed = entry.manifest.metrics[entry.manifest.target]["regret"]
    assert listed == report.score().regret == train.report_of(registry, key).score().regret
    assert f"{listed:.3f}" in card.read_text(encoding="utf-8")


def test_a_refusal_to_train_says_what_did_not_count_and_what_to_run():
    remark = "3 of 6 problems (graph families b) do not count"
    data = train.Data(tuple(problems(graph_families=1)), (remark,), FINGERPRINT, MACHINE)
    with pytest.raises(InputError, match="one graph family, 'family0'") as refused:
        data.check_families()
    assert remark in str(refused.value)
    assert "`hetune profile` measures several" in str(refused.value)
    train.Data(tuple(problems(graph_families=2)), (), FINGERPRINT, MACHINE).check_families()
