"""What chooses follows the champion of a shelf, and nothing that is wrong with one stops it."""

from __future__ import annotations

import dataclasses
import gc
import logging
import weakref
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from hetune.costmodel import calibration
from hetune.costmodel.calibration import Calibration
from hetune.costmodel.following import GIVEN, PACKAGE, ROOFLINE, Following, Given
from hetune.costmodel.model import bundle
from hetune.costmodel.selector import Selector
from hetune.costmodel.shelf import best
from hetune.costmodel.shelf import shelf as shelves
from hetune.costmodel.shelf.shelf import Shelf
from hetune.variants.registry.vectors import Vectors
from hetune.variants.testing.graphs import typed_graph

from ._synthetic import FINGERPRINT, MACHINE, small_model
from .test_shelf import model_of, report

LOGGER = "hetune.costmodel.following"


@pytest.fixture(autouse=True)
def _at_home(monkeypatch, tmp_path):
    """This machine is the one that models were trained on, and the package holds no model."""
    for module in (best, calibration, shelves):
        monkeypatch.setattr(module, "this_machine", lambda: FINGERPRINT)
    monkeypatch.setattr(best, "_PACKAGED", tmp_path / "packaged")
    monkeypatch.setattr(best, "CppBackend", lambda: SimpleNamespace(vectors=Vectors(8, 16)))


@pytest.fixture
def shelf(tmp_path):
    return Shelf(tmp_path / "models")


class Clock:
    """Time that a test tells."""

    def __init__(self):
        self.seconds = 0.0

    def __call__(self):
        return self.seconds


def promoted(shelf: Shelf, day: int) -> str:
    """A new champion."""
    key = shelf.add(model_of(day))
    shelf.promote(key, report=report(1.0), champion_report=report(1.0))
    return key


def damage(shelf: Shelf, key: str) -> None:
    file = next((shelf.root / key).glob("*.ubj"))
    file.write_bytes(file.read_bytes()[:-1])


def test_champions_follow_each_other(shelf, caplog):
    found = Following(shelf)
    assert found.active.model == ROOFLINE
    first = promoted(shelf, 1)
    assert found.active.model == ROOFLINE
    caplog.set_level(logging.INFO, LOGGER)
    caplog.clear()
    assert found.refresh()
    assert not found.refresh()
    held = found.active
    assert held.model == first
    second = promoted(shelf, 2)
    assert found.refresh()
    assert found.active.model == second
    assert found.active.selector.model.manifest.created_at.startswith("2026-01-02")
    assert held.selector.model.manifest.created_at.startswith("2026-01-01")
    shelf.rollback()
    assert found.refresh()
    assert found.active.model == first
    assert [record.args for record in caplog.records] == [
        (first, ROOFLINE),
        (second, first),
        (first, second),
    ]
    assert found.problem is None


def test_there_may_be_no_champion_any_more(shelf, tmp_path):
    bundle.save(small_model(), tmp_path / "packaged" / "avx2")
    key = promoted(shelf, 1)
    found = Following(shelf)
    assert found.active.model == key
    shelf.rollback()
    assert found.refresh()
    assert found.active.model == PACKAGE
    assert found.active.selector.model is not None


def test_a_candidate_changes_nothing(shelf):
    promoted(shelf, 1)
    found = Following(shelf)
    before = found.active
    shelf.add(model_of(2))
    assert not found.refresh()
    assert found.active is before


def test_a_broken_champion_leaves_the_old_one(shelf, caplog):
    first = promoted(shelf, 1)
    clock = Clock()
    found = Following(shelf, clock=clock)
    before = found.active
    second = promoted(shelf, 2)
    damage(shelf, second)
    for _ in range(3):
        assert not found.refresh()
        clock.seconds += 31
    assert found.active is before
    assert second in found.problem
    [said] = [r for r in caplog.records if r.name == LOGGER and r.levelno == logging.WARNING]
    assert first in said.getMessage()
    assert found.problem in said.getMessage()
    shelf.rollback()
    assert not found.refresh()
    assert (found.active, found.problem) == (before, None)


def test_a_champion_that_was_mended_is_taken_after_a_while(shelf):
    promoted(shelf, 1)
    clock = Clock()
    found = Following(shelf, clock=clock)
    second = promoted(shelf, 2)
    file = next((shelf.root / second).glob("*.ubj"))
    whole = file.read_bytes()
    damage(shelf, second)
    assert not found.refresh()
    file.write_bytes(whole)
    assert not found.refresh()
    clock.seconds = 30.0
    assert found.refresh()
    assert (found.active.model, found.problem) == (second, None)


@pytest.mark.parametrize("error", [ValueError("no such tree"), RuntimeError("odd")], ids=repr)
def test_a_champion_that_does_not_answer_leaves_the_old_one(shelf, monkeypatch, error):
    first = promoted(shelf, 1)
    found = Following(shelf)
    promoted(shelf, 2)

    def fail(*_):
        raise error

    monkeypatch.setattr("hetune.costmodel.model.cost_model.CostModel.predict", fail)
    assert not found.refresh()
    assert found.active.model == first
    assert found.problem


def test_damaged_aliases_leave_the_old_one(shelf):
    key = promoted(shelf, 1)
    found = Following(shelf)
    shelf.aliases_file.write_text("{", encoding="utf-8")
    assert not found.refresh()
    assert found.active.model == key
    assert "aliases.json" in found.problem


@pytest.mark.parametrize(("has_package", "name"), [(True, PACKAGE), (False, ROOFLINE)])
def test_at_the_start_something_stands_in_for_a_broken_champion(shelf, tmp_path, has_package, name):
    if has_package:
        bundle.save(small_model(), tmp_path / "packaged" / "avx2")
    key = promoted(shelf, 1)
    damage(shelf, key)
    found = Following(shelf)
    assert found.active.model == name
    assert key in found.problem
    second = promoted(shelf, 2)
    assert found.refresh()
    assert (found.active.model, found.problem) == (second, None)


def test_a_broken_package_leaves_the_roofline_model(shelf, tmp_path):
    bundle.save(small_model(), tmp_path / "packaged" / "avx2")
    next((tmp_path / "packaged" / "avx2").glob("*.ubj")).unlink()
    found = Following(shelf)
    assert found.active.model == ROOFLINE
    assert found.problem


def test_a_new_calibration_counts_at_once(shelf, monkeypatch):
    elsewhere = dataclasses.replace(FINGERPRINT, cores=FINGERPRINT.cores + 1)
    for module in (best, calibration, shelves):
        monkeypatch.setattr(module, "this_machine", lambda: elsewhere)
    key = promoted(shelf, 1)
    found = Following(shelf)
    faster = dataclasses.replace(MACHINE, matrix_flops=2 * MACHINE.matrix_flops)
    Calibration(
        machine=faster,
        offsets={},
        fingerprint=elsewhere.digest,
        model_id=model_of(1).manifest.digest,
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        error_before=None,
        error_after=None,
    ).save(shelf.calibrations)
    assert found.refresh()
    assert found.active.model == key
    assert found.active.selector.machine == faster


def test_a_foreign_champion_is_said_in_the_log(shelf, monkeypatch, caplog):
    elsewhere = dataclasses.replace(FINGERPRINT, cores=FINGERPRINT.cores + 1)
    monkeypatch.setattr(best, "this_machine", lambda: elsewhere)
    key = promoted(shelf, 1)
    assert Following(shelf).active.model == key
    assert "trained on another machine" in caplog.text


def test_a_selector_that_was_given_stays(shelf):
    given = Selector()
    found = Given(given)
    assert (found.active.selector, found.active.model) == (given, GIVEN)
    assert not found.refresh()
    assert found.problem is None


def test_prices_do_not_outlive_who_made_them():
    graph = typed_graph((4, 4), [(0, 1, 9)])
    first, second = Selector(small_model()), Selector()
    learned = first.choose("rgcn", graph, 8)
    assert second.choose("rgcn", graph, 8).source != learned.source
    again = first.choose("rgcn", graph, 8)
    assert again._scored.prices is learned._scored.prices
    seconds = weakref.ref(learned._scored.prices.seconds)
    del first, learned, again
    gc.collect()
    assert seconds() is None
