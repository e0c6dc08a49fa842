"""What chooses follows the champion of a registry, and nothing that is wrong with one stops it."""

from __future__ import annotations

import dataclasses
import gc
import logging
import weakref
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from hetune.costmodel.model import bundle
from hetune.costmodel.registry import calibration, default_model, model_registry
from hetune.costmodel.registry.calibration import Calibration
from hetune.costmodel.registry.model_registry import ModelRegistry
from hetune.costmodel.selection.champion import GIVEN, PACKAGE, ROOFLINE, ChampionFollower
from hetune.costmodel.selection.selector import Selector
from hetune.variants.registry.vectors import Vectors
from hetune.variants.testing.graphs import typed_graph

from ._synthetic import FINGERPRINT, MACHINE, small_model
from .test_model_registry import model_of, report

LOGGER = "hetune.costmodel.selection.champion"


@pytest.fixture(autouse=True)
def _at_home(monkeypatch, tmp_path):
    """This machine is the one that models were trained on, and the package holds no model."""
    for module in (default_model, calibration, model_registry):
        monkeypatch.setattr(module, "this_machine", lambda: FINGERPRINT)
    monkeypatch.setattr(default_model, "_PACKAGED", tmp_path / "packaged")
    monkeypatch.setattr(
        default_model, "CppBackend", lambda: SimpleNamespace(vectors=Vectors(8, 16))
    )


@pytest.fixture
def registry(tmp_path):
    return ModelRegistry(tmp_path / "models")


class Clock:
    """Time that a test tells."""

    def __init__(self):
        self.seconds = 0.0

    def __call__(self):
        return self.seconds


def promoted(registry: ModelRegistry, day: int) -> str:
    """A new champion."""
    key = registry.add(model_of(day))
    registry.promote(key, report=report(1.0), champion_report=report(1.0))
    return key


def damage(registry: ModelRegistry, key: str) -> None:
    file = next((registry.root / key).glob("*.npz"))
    file.write_bytes(file.read_bytes()[:-1])


def test_champions_follow_each_other(registry, caplog):
    found = ChampionFollower(registry)
    assert found.active.model == ROOFLINE
    first = promoted(registry, 1)
    assert found.active.model == ROOFLINE
    caplog.set_level(logging.INFO, LOGGER)
    caplog.clear()
    assert found.refresh()
    assert not found.refresh()
    held = found.active
    assert held.model == first
    second = promoted(registry, 2)
    assert found.refresh()
    assert found.active.model == second
    assert found.active.selector.model.manifest.created_at.startswith("2026-01-02")
    assert held.selector.model.manifest.created_at.startswith("2026-01-01")
    registry.rollback()
    assert found.refresh()
    assert found.active.model == first
    assert [record.args for record in caplog.records] == [
        (first, ROOFLINE),
        (second, first),
        (first, second),
    ]
    assert found.problem is None


def test_there_may_be_no_champion_any_more(registry, tmp_path):
    bundle.save(small_model(), tmp_path / "packaged" / "avx2")
    key = promoted(registry, 1)
    found = ChampionFollower(registry)
    assert found.active.model == key
    registry.rollback()
    assert found.refresh()
    assert found.active.model == PACKAGE
    assert found.active.selector.model is not None


def test_a_candidate_changes_nothing(registry):
    promoted(registry, 1)
    found = ChampionFollower(registry)
    before = found.active
    registry.add(model_of(2))
    assert not found.refresh()
    assert found.active is before


def test_a_broken_champion_leaves_the_old_one(registry, caplog):
    first = promoted(registry, 1)
    clock = Clock()
    found = ChampionFollower(registry, clock=clock)
    before = found.active
    second = promoted(registry, 2)
    damage(registry, second)
    for _ in range(3):
        assert not found.refresh()
        clock.seconds += 31
    assert found.active is before
    assert second in found.problem
    [said] = [r for r in caplog.records if r.name == LOGGER and r.levelno == logging.WARNING]
    assert first in said.getMessage()
    assert found.problem in said.getMessage()
    registry.rollback()
    assert not found.refresh()
    assert (found.active, found.problem) == (before, None)


def test_a_champion_that_was_mended_is_taken_after_a_while(registry):
    promoted(registry, 1)
    clock = Clock()
    found = ChampionFollower(registry, clock=clock)
    second = promoted(registry, 2)
    file = next((registry.root / second).glob("*.npz"))
    whole = file.read_bytes()
    damage(registry, second)
    assert not found.refresh()
    file.write_bytes(whole)
    assert not found.refresh()
    clock.seconds = 30.0
    assert found.refresh()
    assert (found.active.model, found.problem) == (second, None)


@pytest.mark.parametrize("error", [ValueError("no such tree"), RuntimeError("odd")], ids=repr)
def test_a_champion_that_does_not_answer_leaves_the_old_one(registry, monkeypatch, error):
    first = promoted(registry, 1)
    found = ChampionFollower(registry)
    promoted(registry, 2)

    def fail(*_):
        raise error

    monkeypatch.setattr("hetune.costmodel.model.cost_model.CostModel.predictions", fail)
    assert not found.refresh()
    assert found.active.model == first
    assert found.problem


def test_damaged_aliases_leave_the_old_one(registry):
    key = promoted(registry, 1)
    found = ChampionFollower(registry)
    registry.aliases_file.write_text("{", encoding="utf-8")
    assert not found.refresh()
    assert found.active.model == key
    assert "aliases.json" in found.problem


@pytest.mark.parametrize(("has_package", "name"), [(True, PACKAGE), (False, ROOFLINE)])
def test_at_the_start_something_stands_in_for_a_broken_champion(
    registry, tmp_path, has_package, name
):
    if has_package:
        bundle.save(small_model(), tmp_path / "packaged" / "avx2")
    key = promoted(registry, 1)
    damage(registry, key)
    found = ChampionFollower(registry)
    assert found.active.model == name
    assert key in found.problem
    second = promoted(registry, 2)
    assert found.refresh()
    assert (found.active.model, found.problem) == (second, None)


def test_a_broken_package_leaves_the_roofline_model(registry, tmp_path):
    bundle.save(small_model(), tmp_path / "packaged" / "avx2")
    next((tmp_path / "packaged" / "avx2").glob("*.npz")).unlink()
    found = ChampionFollower(registry)
    assert found.active.model == ROOFLINE
    assert found.problem


def test_a_new_calibration_counts_at_once(registry, monkeypatch):
    elsewhere = dataclasses.replace(FINGERPRINT, cores=FINGERPRINT.cores + 1)
    for module in (default_model, calibration, model_registry):
        monkeypatch.setattr(module, "this_machine", lambda: elsewhere)
    key = promoted(registry, 1)
    found = ChampionFollower(registry)
    faster = dataclasses.replace(MACHINE, matrix_flops=2 * MACHINE.matrix_flops)
    Calibration(
        machine=faster,
        offsets={},
        fingerprint=elsewhere.digest,
        model_id=model_of(1).manifest.digest,
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        error_before=None,
        error_after=None,
    ).save(registry.calibrations)
    assert found.refresh()
    assert found.active.model == key
    assert found.active.selector.machine == faster


def test_a_foreign_champion_is_said_in_the_log(registry, monkeypatch, caplog):
    elsewhere = dataclasses.replace(FINGERPRINT, cores=FINGERPRINT.cores + 1)
    monkeypatch.setattr(default_model, "this_machine", lambda: elsewhere)
    key = promoted(registry, 1)
    assert ChampionFollower(registry).active.model == key
    assert "trained on another machine" in caplog.text


def test_a_selector_that_was_given_stays(registry):
    given = Selector()
    found = ChampionFollower(registry, given)
    assert (found.active.selector, found.active.model) == (given, GIVEN)
    assert not found.refresh()
    assert found.problem is None


def test_prices_do_not_outlive_who_made_them():
    graph = typed_graph((4, 4), [(0, 1, 9)])
    first, second = Selector(small_model()), Selector()
    learned = first.choose("rgcn", graph, 8)
    assert second.choose("rgcn", graph, 8).source != learned.source
    again = first.choose("rgcn", graph, 8)
    assert again.scored.estimates is learned.scored.estimates
    seconds = weakref.ref(learned.scored.estimates.seconds)
    del first, learned, again
    gc.collect()
    assert seconds() is None
