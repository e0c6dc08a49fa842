"""`hetune train`, `evaluate`, `promote`, `rollback`, `models`, on times of a known law."""

from __future__ import annotations

import json
import re
import shutil

import pytest
from tests.costmodel import _synthetic_gpu
from tests.costmodel._synthetic import contrary_model, problems
from tests.costmodel.test_model_registry import report
from tests.profiling._filled import fill
from tests.profiling._made_up import MACHINE, OTHER_MACHINE

from hetune.costmodel.evaluate import prediction_time
from hetune.costmodel.evaluate.report import MODEL, Report
from hetune.costmodel.model.cost_model import CostModel
from hetune.costmodel.registry.model_registry import ModelRegistry
from hetune.profiling.cost_model_training import train as training_of
from hetune.profiling.cost_model_training.train import report_of, train
from hetune.profiling.measuring_lock import measuring_lock
from hetune.profiling.store.store import Store
from hetune.variants.errors import InputError, ModelError
from hetune.variants.registry.sealed_json import unsealed

from ._command import call

pytestmark = pytest.mark.filterwarnings(
    "ignore::hetune.costmodel.registry.default_model.ForeignModelWarning"
)


@pytest.fixture
def registry(tmp_path, monkeypatch):
    monkeypatch.setenv("HETUNE_MODELS", str(tmp_path / "models"))
    return tmp_path / "models"


@pytest.fixture(scope="module")
def training(tmp_path_factory):
    """A folder with a store and a model's registry; how it was trained, and what locks it saw."""
    folder = tmp_path_factory.mktemp("trained")
    fill(folder / "a.db", problems(graph_families=4, graphs=3))
    free, fit = [], CostModel.fit

    def watched(*args, **options):
        with measuring_lock(wait=False) as is_free:
            free.append(is_free)
        return fit(*args, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CostModel, "fit", watched)
        patch.setenv("HETUNE_MODELS", str(folder / "models"))
        arguments = ("--folds", "2", "--target", "roofline-ratio")
        result = call("train", "--store", str(folder / "a.db"), *arguments)
    assert result.exit_code == 0, result.output
    return folder, result, free


@pytest.fixture
def trained(training, tmp_path, registry):
    folder, result, _ = training
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    return result


def test_training_without_a_command_line(training, tmp_path):
    """As a job's worker does it."""
    folder, *_ = training
    registry = ModelRegistry(tmp_path / "models")
    with Store.open(folder / "a.db") as store:
        key = train(store, MACHINE.digest, registry, target="roofline-ratio", folds=2)
        with pytest.raises(ModelError, match=r"no measurements .* to train on"):
            train(store, "unknown", registry)
    assert [(entry.id, entry.aliases) for entry in registry.entries()] == [(key, ("candidate",))]
    there = json.loads(next((folder / "models" / "cards").glob("*/report.json")).read_text())
    assert json.loads(report_of(registry, key).as_json()) == there


def test_training_makes_a_candidate_with_a_card(trained, registry):
    assert "24 measured inputs of 4 graph families" in trained.output
    assert MODEL in trained.output
    (card,) = (registry / "cards").iterdir()
    assert (card / "model-card.md").read_text().startswith("# ")
    report = Report.from_json((card / "report.json").read_text())
    assert len(report.outcomes) == 24
    listed = call("models").output
    assert "candidate" in listed
    assert card.name in listed


def test_nobody_measures_while_a_model_is_trained(training):
    assert training[2] == [False] * 3


def test_what_cannot_be_trained_is_said_before_anything_is_fitted(tmp_path, registry, monkeypatch):
    monkeypatch.setattr(CostModel, "fit", None)
    fill(tmp_path / "a.db", problems(graph_families=2, graphs=2))
    result = call("train", "--store", tmp_path / "a.db", "--out", tmp_path)
    assert (result.exit_code, "is there already" in result.stderr) == (2, True)
    fill(tmp_path / "b.db", problems(graph_families=1, graphs=2))
    result = call("train", "--store", tmp_path / "b.db")
    assert (result.exit_code, "one graph family" in result.stderr) == (2, True)
    with Store.open(tmp_path / "b.db") as store, pytest.raises(InputError, match="one graph"):
        train(store, MACHINE.digest, ModelRegistry(tmp_path / "models"))


def test_a_card_that_cannot_be_written_is_said(tmp_path, registry):
    fill(tmp_path / "a.db", problems(graph_families=2, graphs=3))
    registry.mkdir()
    (registry / "cards").touch()
    arguments = ("--folds", "2", "--target", "roofline-ratio")
    result = call("train", "--store", tmp_path / "a.db", *arguments)
    assert result.exit_code == 1
    assert re.fullmatch("error: cannot write the card of the candidate .*\n", result.stderr)


def test_an_empty_store_says_what_to_do(tmp_path, registry):
    result = call("train", "--store", str(tmp_path / "empty.db"))
    assert result.exit_code == 1
    assert "run `hetune profile` first" in result.output


def test_a_machine_without_records_is_told_which_there_are(trained, tmp_path, registry):
    for command in ("train", "evaluate"):
        result = call(command, "--store", tmp_path / "a.db", "--machine", "abc")
        assert result.exit_code != 0
        said = " ".join(result.stderr.split())
        assert f"none are of the machine 'abc': name one of {MACHINE.digest} (" in said, command


@pytest.mark.parametrize("command", ["evaluate", "promote"])
def test_an_empty_registry_says_what_to_do(command, tmp_path, registry):
    for device, option in (("cpu", ""), ("cuda", " --device cuda")):
        result = call(command, "--store", tmp_path / "a.db", "--device", device)
        assert result.exit_code == 1
        said = " ".join(result.stderr.split())
        assert f"are none; run `hetune profile{option}` and `hetune train{option}`" in said


def test_evaluating_takes_families_that_were_not_trained_on(trained, tmp_path):
    result = call("evaluate", "--store", str(tmp_path / "a.db"))
    assert result.exit_code == 2
    assert "not trained on" in result.output.replace("\n", " ")
    fill(tmp_path / "b.db", problems(graph_families=2, seed=5), prefix="new-")
    result = call("evaluate", "--store", str(tmp_path / "b.db"), "--json")
    assert result.exit_code == 0, result.output
    assert len(json.loads(result.output)["outcomes"]) == 8


def test_asking_is_timed_where_measurements_are_of_this_machine(trained, tmp_path, monkeypatch):
    fill(tmp_path / "b.db", problems(graph_families=2, seed=5), prefix="new-")
    for here in (MACHINE, OTHER_MACHINE):
        monkeypatch.setattr(prediction_time, "this_machine", lambda here=here: here)
        result = call("evaluate", "--store", str(tmp_path / "b.db"), "--json")
        spent = Report.from_json(result.output).score(MODEL).overhead_runs
        assert (spent is not None) == (here is MACHINE)


def test_promoting_and_rolling_back(trained, tmp_path):
    promoted = call("promote", "--store", str(tmp_path / "a.db"))
    assert promoted.exit_code == 0, promoted.output
    assert "champion: " in promoted.output
    assert "champion" in call("models").output
    back = call("rollback")
    assert back.exit_code == 0
    assert "there is no champion now" in back.output
    again = call("rollback")
    assert again.exit_code == 1
    assert "promote one first" in again.output.replace("\n", " ")


def test_a_machine_that_is_unknown_is_refused(trained, tmp_path):
    refused = call("promote", "--store", tmp_path / "a.db", "--machine", "0" * 16)
    assert refused.exit_code == 2
    assert "none are of the machine" in " ".join(refused.stderr.split())


def test_a_worse_model_does_not_take_the_champion_s_place(trained, tmp_path, registry):
    assert call("promote", "--store", tmp_path / "a.db").exit_code == 0
    there = ModelRegistry(registry)
    champion, worse = there.find("champion"), there.add(contrary_model())
    refused = call("promote", "--store", tmp_path / "a.db")
    assert refused.exit_code == 2  # nothing there is new to both
    fill(tmp_path / "d.db", problems(graph_families=2, seed=5), prefix="new-")
    refused = call("promote", "--store", tmp_path / "d.db")
    assert refused.exit_code == 1
    said = " ".join(refused.stderr.split())
    assert f"{worse} is not promoted" in said
    assert "worse than that of always taking the best fixed variant" in said
    assert "worse than the champion's on the same inputs" in said
    assert there.find("champion") == champion


def test_a_better_model_takes_the_champion_s_place(trained, tmp_path, registry):
    there = ModelRegistry(registry)
    better = there.find("candidate")
    there.promote(there.add(contrary_model()), report=report(1.1))
    fill(tmp_path / "d.db", problems(graph_families=2, seed=5), prefix="new-")
    promoted = call("promote", better, "--store", tmp_path / "d.db")
    assert promoted.exit_code == 0, promoted.output
    assert f"champion: {better}" in promoted.output
    assert there.find("champion") == better


DAMAGE = {
    "no text": lambda text: b"\xff\xfe",
    "no JSON": lambda text: b"{",
    "nested too deeply": lambda text: b"[" * 100_000,
    "no oracle": lambda text: text.replace('"oracle"', '"prophet"').encode(),
    "no number": lambda text: re.sub(r'"seconds": [^,}]*', '"seconds": NaN', text).encode(),
    "a text": lambda text: re.sub(r'"seconds": [^,}]*', '"seconds": "1"', text).encode(),
    "another number": lambda text: re.sub(r'"seconds": [^,}]*', r"\g<0>e-9", text).encode(),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_report_is_said(trained, tmp_path, registry, damage):
    (file,) = registry.glob("cards/*/report.json")
    file.write_bytes(DAMAGE[damage](file.read_text()))
    result = call("promote", "--store", tmp_path / "a.db")
    assert result.exit_code == 1
    said = " ".join(result.stderr.split())
    assert f"{file} is damaged (" in said
    assert "train it again, or profile graphs of other families" in said


def test_a_report_of_an_earlier_release_counts(trained, tmp_path, registry):
    """It has no digest."""
    (file,) = registry.glob("cards/*/report.json")
    file.write_text(json.dumps(unsealed(json.loads(file.read_text()))))
    assert call("promote", "--store", tmp_path / "a.db").exit_code == 0


def test_a_report_that_is_not_there_is_said(trained, tmp_path, registry):
    (file,) = registry.glob("cards/*/report.json")
    file.unlink()
    result = call("promote", "--store", tmp_path / "a.db")
    assert result.exit_code == 2
    assert "there is no report of the cost model" in " ".join(result.stderr.split())


def test_models_for_gpus_have_a_life_of_their_own(tmp_path, registry, monkeypatch):
    monkeypatch.setattr(training_of, "default_rates", lambda device: _synthetic_gpu.GPU)
    store = ("--store", str(tmp_path / "both.db"))
    fill(tmp_path / "both.db", problems(graph_families=2, graphs=2))
    refused = call("train", *store, "--device", "cuda")
    assert refused.exit_code == 1
    assert "run `hetune profile --device cuda` first" in refused.output.replace("\n", " ")
    fill(tmp_path / "both.db", _synthetic_gpu.problems(), prefix="gpu-")
    arguments = (*store, "--device", "cuda")
    trained = call("train", *arguments, "--folds", "2", "--target", "roofline-ratio")
    assert trained.exit_code == 0, trained.output
    assert "24 measured inputs of 4 graph families" in trained.output
    (entry,) = ModelRegistry(registry).of("cuda").entries()
    assert (entry.aliases, entry.manifest.device) == (("candidate",), "cuda")
    assert entry.id in call("models", "--device", "cuda").output
    assert entry.id not in call("models").output
    promoted = call("promote", *arguments)
    assert promoted.exit_code == 0, promoted.output
    fill(tmp_path / "both.db", _synthetic_gpu.problems(graphs=1, widths=(32,)), prefix="new-")
    judged = call("evaluate", "champion", *arguments, "--json")
    assert {o["family"] for o in json.loads(judged.output)["outcomes"]} == {
        f"new-{family}" for family in _synthetic_gpu.FAMILIES
    }
    assert "the roofline model answers" in call("rollback", "--device", "cuda").output
    assert call("rollback").exit_code == 1  # nobody has promoted a model for CPUs
