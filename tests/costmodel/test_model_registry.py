"""The model registry: models, aliases, the gate, going back, and which model answers."""

from __future__ import annotations

import dataclasses
import logging
import math
import re
import stat
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from types import SimpleNamespace

import numpy as np
import pytest

from hetune.costmodel import fingerprint
from hetune.costmodel.evaluate.metrics import FIXED, ORACLE, Outcome, Pick
from hetune.costmodel.evaluate.report import MODEL, Report
from hetune.costmodel.model import booster, bundle
from hetune.costmodel.model.cost_model import CostModel
from hetune.costmodel.model.regressor import LaunchRegressor
from hetune.costmodel.registry import default_model
from hetune.costmodel.registry.calibration import Calibration
from hetune.costmodel.registry.default_model import (
    ForeignModelWarning,
    foreign,
    load_best,
    packaged,
    warn_if_foreign,
)
from hetune.costmodel.registry.gate import objections
from hetune.costmodel.registry.model_registry import ModelRegistry
from hetune.costmodel.selection.selector import LEARNED, Selector
from hetune.variants.errors import CompileError, ModelError, PromotionError
from hetune.variants.registry.vectors import Vectors

from ._synthetic import FINGERPRINT, MACHINE, small_model


@pytest.fixture
def registry(tmp_path):
    return ModelRegistry(tmp_path / "models")


@pytest.fixture(autouse=True)
def _at_home(monkeypatch, tmp_path):
    """This machine is the one that models were trained on, and the package holds no model."""
    monkeypatch.setattr(default_model, "this_machine", lambda: FINGERPRINT)
    monkeypatch.setattr(default_model, "_PACKAGED", tmp_path / "packaged")
    monkeypatch.setattr(
        default_model, "CppBackend", lambda: SimpleNamespace(vectors=Vectors(8, 16))
    )
    monkeypatch.setattr(default_model, "_logged", set())


def model_of(day: int) -> CostModel:
    """Models that differ in when they were made."""
    created = dataclasses.replace(
        small_model().manifest, created_at=f"2026-01-{day:02}T00:00:00+00:00"
    )
    return dataclasses.replace(small_model(), manifest=created)


def report(regret: float, fixed: float = 1.2, graphs: tuple[str, ...] = ("g0", "g1")) -> Report:
    """An evaluation in which the model shows this regret, and the best fixed variant that one."""
    seconds = {ORACLE: 1.0, FIXED: fixed, MODEL: regret}
    picks = {name: Pick("v", value, 0.0) for name, value in seconds.items()}
    return Report(
        tuple(Outcome(name, "family", "rgcn", 32, 32, 1, 2, 9, 1.0, picks) for name in graphs)
    )


@pytest.mark.parametrize(
    ("candidate", "champion", "reasons"),
    [
        (report(1.1), None, []),
        (report(1.2), None, []),
        (report(1.3), None, ["best fixed variant, 1.200"]),
        (report(1.1), report(1.15), []),
        (report(1.1), report(1.1), []),
        (report(1.1), report(1.05), ["champion's on the same inputs, 1.050"]),
        (report(1.3), report(1.05), ["best fixed variant", "champion's"]),
        (report(1.1), report(1.15, graphs=("g0", "g2")), ["not evaluated on the same inputs"]),
        (report(1.1), Report(()), ["not evaluated on the same inputs"]),
        (Report(()), None, ["no choices"]),
        (report(math.nan), None, ["its regret of nan is no finite number"]),
        (report(1.1, fixed=math.nan), None, ["the best fixed variant's regret of nan"]),
        (report(1.1), report(math.nan), ["the champion's regret of nan is no finite number"]),
        (report(math.nan), report(1.1), ["its regret of nan is no finite number"]),
    ],
)
def test_the_gate(candidate, champion, reasons):
    found = objections(candidate, champion)
    assert len(found) == len(reasons)
    assert all(reason in text for reason, text in zip(reasons, found, strict=True))


def test_a_model_that_is_added_is_the_candidate(registry):
    first, second = registry.add(model_of(1)), registry.add(model_of(2))
    assert first.startswith("20260101-")
    assert [(e.id, e.aliases) for e in registry.entries()] == [
        (second, ("candidate",)),
        (first, ()),
    ]
    assert registry.find("candidate") == second
    loaded = registry.load(first)
    assert loaded.manifest.created_at == model_of(1).manifest.created_at


def test_a_model_is_stored_once(registry):
    assert registry.add(model_of(1)) == registry.add(model_of(1))
    assert registry.add(registry.load("candidate")) == registry.find("candidate")
    assert len(registry.entries()) == 1


def test_the_folder_is_private_and_named_by_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("HETUNE_MODELS", str(tmp_path / "mine"))
    ModelRegistry().add(model_of(1))
    assert stat.S_IMODE((tmp_path / "mine").stat().st_mode) == 0o700


def test_champions_come_and_go(registry):
    first = registry.add(model_of(1))
    assert registry.promote(report=report(1.1)) == first
    second = registry.add(model_of(2))
    registry.promote(report=report(1.05), champion_report=report(1.1))
    assert registry.aliases().champion == second
    assert registry.rollback() == first
    assert registry.find("champion") == first
    assert registry.rollback() is None
    with pytest.raises(PromotionError, match="promote one first"):
        registry.rollback()
    changes = [(c.alias, c.before, c.after, c.why) for c in registry.aliases().history]
    assert changes == [
        ("candidate", None, first, "add"),
        ("champion", None, first, "promote"),
        ("candidate", first, second, "add"),
        ("champion", first, second, "promote"),
        ("champion", second, first, "rollback"),
        ("champion", first, None, "rollback"),
    ]
    assert all(c.who and c.when for c in registry.aliases().history)


def test_a_candidate_that_loses_is_refused_with_all_reasons(registry):
    first = registry.add(model_of(1))
    registry.promote(report=report(1.1))
    registry.add(model_of(2))
    with pytest.raises(PromotionError, match=r"best fixed.*champion's"):
        registry.promote(report=report(1.3), champion_report=report(1.1))
    with pytest.raises(PromotionError, match="was not evaluated: evaluate both"):
        registry.promote(report=report(1.0))
    assert registry.aliases().champion == first


def test_a_champion_that_cannot_be_loaded_stops_nobody(registry, caplog):
    first = registry.add(model_of(1))
    registry.promote(report=report(1.1))
    (registry.root / first / "product.npz").write_bytes(b"")
    second = registry.add(model_of(2))
    assert registry.promote(report=report(1.15)) == second
    assert "the champion does not count" in caplog.text


def test_a_champion_that_was_not_judged_is_not_replaced(registry):
    first, second, third = (registry.add(model_of(day)) for day in (1, 2, 3))
    registry.promote(first, report=report(1.10))
    judged = {"champion_report": report(1.10), "champion": first}
    registry.promote(second, report=report(1.02), **judged)
    with pytest.raises(PromotionError, match=f"the champion is {second} by now, not {first}"):
        registry.promote(third, report=report(1.05), **judged)
    assert registry.aliases().champion == second


def test_promoting_the_champion_changes_nothing(registry):
    registry.add(model_of(1))
    registry.promote(report=report(1.1))
    before = registry.aliases()
    registry.promote(report=report(1.1))
    assert registry.aliases() == before


@pytest.mark.parametrize("name", ["candidate", "20260101-000000000000", "../elsewhere", "."])
def test_a_model_that_is_not_there(registry, name):
    with pytest.raises(ModelError, match="there is no cost model"):
        registry.load(name)
    with pytest.raises(ModelError, match="there is no cost model"):
        registry.promote(name, report=report(1.0))


def test_many_add_at_once(registry):
    days = range(1, 9)
    with ThreadPoolExecutor(4) as pool:
        keys = list(pool.map(lambda day: registry.add(model_of(day)), days))
    assert {entry.id for entry in registry.entries()} == set(keys)
    assert {change.after for change in registry.aliases().history} == set(keys)


def test_other_folders_on_the_registry_are_no_models(registry):
    key = registry.add(model_of(1))
    (registry.root / "cards" / key).mkdir(parents=True)
    assert [entry.id for entry in registry.entries()] == [key]
    with pytest.raises(ModelError, match="there is no cost model 'cards'"):
        registry.load("cards")


def test_damaged_models_are_left_out_of_the_list(registry, caplog):
    first, second = registry.add(model_of(1)), registry.add(model_of(2))
    (registry.root / first / "manifest.json").write_text("{")
    assert [entry.id for entry in registry.entries()] == [second]
    assert first in caplog.text


def test_a_manifest_that_was_changed_is_damaged(registry, caplog):
    key = registry.add(model_of(1))
    registry.promote(report=report(1.1))
    file = registry.root / key / "manifest.json"
    file.write_text(file.read_text().replace("2026-01-01", "2026-01-02"))
    with pytest.raises(ModelError, match=r"SHA-256 of manifest\.json does not begin with"):
        registry.load("champion")
    assert registry.entries() == ()
    assert load_best(registry) is None
    assert "the champion does not answer" in caplog.text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"format": 7}',
        '{"format": 1, "history": [1]}',
        '{"format": 1, "history": [], "candidate": null, "champions": "abc"}',
        '{"format": 1, "history": [], "candidate": null, "champions": [1]}',
        '{"format": 1, "history": [], "candidate": ["abc"], "champions": []}',
        "[" * 100_000,
    ],
    ids=lambda text: text[:70],
)
def test_damaged_aliases_are_an_error_that_says_what_to_do(registry, text):
    registry.add(model_of(1))
    (registry.root / "aliases.json").write_text(text)
    with pytest.raises(ModelError, match=r"aliases\.json cannot be read.*delete it"):
        registry.aliases()


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ModelError, match=r"cannot create the model registry.*HETUNE_MODELS"):
        ModelRegistry(tmp_path / "file" / "models").add(model_of(1))


def test_the_champion_answers_then_the_package_then_nobody(registry, tmp_path):
    assert packaged() is None
    assert load_best(registry) is None
    bundle.save(model_of(1), tmp_path / "packaged" / "avx2")
    registry.add(model_of(2))
    assert load_best(registry).manifest.created_at == model_of(1).manifest.created_at
    registry.promote(report=report(1.1))
    assert load_best(registry).manifest.created_at == model_of(2).manifest.created_at


@pytest.mark.parametrize(
    ("lanes", "folder"), [(16, "avx512"), (8, "avx2"), (4, "avx2"), (None, "avx2")]
)
def test_the_package_s_model_is_that_of_the_registers(tmp_path, monkeypatch, lanes, folder):
    def backend():
        if lanes is None:
            raise CompileError("no C++ compiler")
        return SimpleNamespace(vectors=Vectors(lanes, 32))

    monkeypatch.setattr(default_model, "CppBackend", backend)
    for day, name in enumerate(("avx512", "avx2", "cuda"), start=1):
        bundle.save(model_of(day), tmp_path / "packaged" / name)
    wanted = bundle.load(tmp_path / "packaged" / folder)
    assert packaged().manifest.created_at == wanted.manifest.created_at


@pytest.mark.parametrize(
    "damage",
    [
        lambda registry: (registry.root / registry.find("champion") / "fused.npz").write_bytes(
            b"x"
        ),
        lambda registry: (registry.root / registry.find("champion") / "manifest.json").unlink(),
        lambda registry: (registry.root / "aliases.json").write_text("{"),
    ],
)
def test_what_cannot_be_used_is_logged_and_passed_over(registry, tmp_path, damage, caplog):
    bundle.save(model_of(1), tmp_path / "packaged" / "avx2")
    registry.add(model_of(2))
    registry.promote(report=report(1.1))
    damage(registry)
    assert load_best(registry).manifest.created_at == model_of(1).manifest.created_at
    assert "the champion does not answer" in caplog.text
    (tmp_path / "packaged" / "avx2" / "manifest.json").write_text("{}")
    assert load_best(registry) is None
    assert "the model in the package does not answer" in caplog.text


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "null",
        lambda text: "[" * 100_000,
        lambda text: re.sub(r'"launch_seconds": [^,\n]*', '"launch_seconds": NaN', text),
        lambda text: re.sub(r'"widening": [^,\n]*', '"widening": null', text),
        lambda text: text.replace('"regret": ', '"grief": '),
    ],
    ids=["null", "nested too deeply", "no number", "no widening", "no regret"],
)
def test_whatever_the_package_s_manifest_holds_it_is_passed_over(
    registry, tmp_path, damage, caplog
):
    bundle.save(model_of(1), tmp_path / "packaged" / "avx2")
    file = tmp_path / "packaged" / "avx2" / "manifest.json"
    file.write_text(damage(file.read_text()))
    assert load_best(registry) is None
    assert "the model in the package does not answer" in caplog.text


@pytest.mark.parametrize(
    "error",
    [
        ImportError("No module named 'xgboost'"),
        OSError("libgomp.so.1: cannot open shared object file"),
        ValueError("\nXGBoost Library (libxgboost.so) could not be loaded.\nLikely causes: ..."),
    ],
    ids=repr,
)
def test_without_xgboost_models_answer_and_none_is_fitted(registry, tmp_path, monkeypatch, error):
    def fail(name):
        raise error

    bundle.save(model_of(1), tmp_path / "packaged" / "avx2")
    monkeypatch.setattr(booster, "importlib", SimpleNamespace(import_module=fail))
    assert Selector.adapted(packaged(), registry).warm_up().source == LEARNED
    with pytest.raises(ModelError, match=r"needs xgboost.*pip install xgboost-cpu") as raised:
        LaunchRegressor(("a",)).fit(np.zeros((9, 1)), np.ones(9), roofline=np.ones(9))
    assert "\n" not in str(raised.value)


ELSEWHERE = dataclasses.replace(FINGERPRINT, cpu="Synthetic 4000")


def test_a_champion_of_another_machine_answers_with_a_warning(registry, monkeypatch):
    registry.add(model_of(1))
    registry.promote(report=report(1.1))
    monkeypatch.setattr(default_model, "this_machine", lambda: ELSEWHERE)
    with pytest.warns(ForeignModelWarning, match=r"cpu: Synthetic 3000.*hetune calibrate"):
        assert load_best(registry) is not None


def test_the_warning_says_what_choices_took_where_they_were_judged():
    model, metrics = model_of(1), small_model().manifest.metrics
    mine, roofline = (metrics[name]["regret"] for name in ("roofline-ratio", "roofline"))
    known = f"took {mine:.3f} times the least time (the roofline model's {roofline:.3f})"
    assert known in foreign(model, ELSEWHERE)
    unjudged = dataclasses.replace(model.manifest, metrics={"roofline": {"regret": roofline}})
    model = dataclasses.replace(model, manifest=unjudged)
    assert "slower than they could be: run `hetune calibrate`" in foreign(model, ELSEWHERE)


def test_a_model_that_was_calibrated_here_brings_no_warning(registry, monkeypatch):
    registry.add(model_of(1))
    registry.promote(report=report(1.1))
    monkeypatch.setattr(default_model, "this_machine", lambda: ELSEWHERE)
    of_another = calibration("another model")
    of_another.save(registry.calibrations)
    with pytest.warns(ForeignModelWarning):
        load_best(registry)
    calibration(model_of(1).manifest.digest).save(registry.calibrations)
    assert load_best(registry) is not None


def calibration(model_id: str) -> Calibration:
    """That of this machine, which decides whether it is found."""
    machine = fingerprint.this_machine().digest
    now = datetime(2026, 1, 1, tzinfo=UTC)
    return Calibration(MACHINE, {}, machine, model_id, now, None, None)


def test_the_package_s_model_says_once_in_the_log_that_it_is_of_another_machine(
    registry, tmp_path, monkeypatch, caplog
):
    bundle.save(model_of(1), tmp_path / "packaged" / "avx2")
    monkeypatch.setattr(default_model, "this_machine", lambda: ELSEWHERE)
    with caplog.at_level(logging.INFO):
        assert load_best(registry) is not None
        assert load_best(registry) is not None
    assert caplog.text.count("trained on another machine") == 1


def test_a_machine_that_is_the_same_in_all_that_matters_brings_no_warning():
    newer = dataclasses.replace(FINGERPRINT, system="None 2", numpy="2.1")
    assert fingerprint.difference(FINGERPRINT, newer) == []
    warn_if_foreign(small_model(), newer)
