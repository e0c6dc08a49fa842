"""Model cards: what is on them, and that they stand alone."""

from __future__ import annotations

import logging
import re
import struct
from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest

from hetune.costmodel.evaluate import model_card as cards
from hetune.costmodel.evaluate.model_card import (
    MARKDOWN,
    PAGE,
    ModelCard,
    card_of,
    data_table,
    write_card,
)
from hetune.costmodel.evaluate.points import Points
from hetune.costmodel.evaluate.report import MODEL, cross_validate
from hetune.costmodel.evaluate.tables import (
    TextTable,
    comparison_table,
    facet_table,
    notes,
    scores_table,
)
from hetune.costmodel.fingerprint import this_machine
from hetune.costmodel.model.cost_model import CostModel
from hetune.variants.runtime.roofline import MachineModel

from ._judged import problem

drawn = pytest.mark.skipif(
    not (find_spec("matplotlib") and find_spec("jinja2")), reason="needs the extra 'report'"
)
TITLE = "A model <b>of</b> & for *this*"
PICTURES = {"regret.png", "predictions.png", "importance.png"}


class Model:
    """Takes candidates in their order, and is 10% off."""

    def choose(self, problem, machine=None):
        return problem.candidates[0].variant

    def predict(self, launches, machine):
        return np.full(len(launches.families), 1.1)


PROBLEMS = [
    problem(
        {"a": 1.0 + 0.1 * number, "b": 1.2, "vanilla/b1024": 3.0},
        graph=f"{family}{number}",
        family=family,
        layer=layer,
        d_out=d_out,
        work={"a": 1e9 * (1 + number), "b": 2e9, "vanilla/b1024": 9e9},
    )
    for family in ("grid", "hub")
    for number in range(4)
    for layer in ("rgcn", "hgt")
    for d_out in (32, 128)
]


@pytest.fixture(scope="module")
def card() -> ModelCard:
    report = cross_validate(PROBLEMS, lambda training: Model(), about={"split": "by family"})
    importance = {"fused": {"blocks": 0.75, "n": 0.25}, "product": {"n": 1.0}}
    return ModelCard(TITLE, {"machine": "<none>"}, report, importance, data_table(PROBLEMS))


@pytest.fixture(scope="module")
def folder(card, tmp_path_factory):
    folder = tmp_path_factory.mktemp("cards") / "new" / "folder"
    folder.mkdir(parents=True)
    (folder / MARKDOWN).write_text("an older card")
    paths = write_card(card, folder)
    assert paths[0].name == MARKDOWN
    assert {path.name for path in folder.iterdir()} == {path.name for path in paths}
    return folder


@drawn
def test_pictures_are_drawn(folder):
    for name in PICTURES:
        content = (folder / name).read_bytes()
        assert content.startswith(b"\x89PNG")
        width, height = struct.unpack(">II", content[16:24])
        assert 600 < width < 4000
        assert 250 < height < 2500


def test_markdown_holds_every_chooser_and_figure(card, folder):
    text = (folder / MARKDOWN).read_text(encoding="utf-8")
    assert f"# {TITLE}" in text
    for name in card.report.names:
        assert re.search(rf"^\| (\*\*)?{re.escape(name)}(\*\*)? \|", text, re.M), name
    assert f"**{card.report.score(MODEL).regret:.3f}**" in text
    assert r"- machine: \<none\>" in text
    for heading in ("By layer", "By widths", "By graph family", "Training data"):
        assert f"## {heading}\n" in text


@drawn
def test_markdown_s_pictures_are_beside_it(folder):
    text = (folder / MARKDOWN).read_text(encoding="utf-8")
    assert set(re.findall(r"\]\((.*?)\)", text)) == PICTURES


@drawn
def test_the_page_stands_alone(folder):
    text = (folder / PAGE).read_text(encoding="utf-8")
    assert text.count("data:image/png;base64,") == len(PICTURES)
    assert re.findall(r'(?:src|href)="(?!data:)', text) == []
    assert "<script" not in text


@drawn
def test_the_page_shows_names_as_they_are(folder):
    text = (folder / PAGE).read_text(encoding="utf-8")
    assert "<h1>A model &lt;b&gt;of&lt;/b&gt; &amp; for *this*</h1>" in text
    assert "<dd>&lt;none&gt;</dd>" in text


@drawn
def test_a_card_of_little_can_be_drawn(tmp_path):
    report = replace(cross_validate(PROBLEMS, lambda training: Model()), points={})
    bare = ModelCard("bare", {}, replace(report, outcomes=report.outcomes[:1]), {}, data_table([]))
    names = {path.name for path in write_card(bare, tmp_path)}
    assert names == {MARKDOWN, PAGE, "regret.png"}


def test_without_the_extra_there_is_markdown_and_a_note(card, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(cards, "find_spec", lambda name: None if name == "jinja2" else True)
    with caplog.at_level(logging.WARNING):
        assert write_card(card, tmp_path) == (tmp_path / MARKDOWN,)
    assert "jinja2 is not installed: pip install '.[report]'" in caplog.text
    text = (tmp_path / MARKDOWN).read_text(encoding="utf-8")
    assert "## Against others" in text
    assert "![" not in text


def test_a_fitted_model_s_card_says_where_it_comes_from():
    machine = this_machine()
    given = [replace(p, machine=machine.digest) for p in PROBLEMS]
    model = CostModel.fit(given, MachineModel(), machine, target="roofline-ratio", folds=0)
    report = cross_validate(given, lambda training: model, about={"split": "none"})
    card = card_of(model, given, report)
    assert card.facts["machine"].endswith(f"({machine.digest})")
    assert card.facts["data"].startswith("32 inputs, 96 variants measured, 96 launches")
    assert card.facts["split"] == "none"
    assert card.importance.keys() == {"fused"}
    assert sum(card.importance["fused"].values()) == pytest.approx(1)


def test_the_data_are_counted_by_family():
    table = data_table(PROBLEMS)
    assert table.rows[0] == ("grid", "4", "16", "48", "hgt, rgcn", "2 pairs")
    assert table.rows[-1][:4] == ("all", "8", "32", "96")
    assert table.marked == {"all"}


def test_graphs_of_one_name_are_counted_by_content():
    both = [
        problem({"a": 1.0}, family="hub", fingerprint=content, layer=layer)
        for content in ("one", "two")
        for layer in ("rgcn", "rgat")
    ]
    split = problem({"a": 1.0}, family="hub", fingerprint="one, split for HGT", layer="hgt")
    assert data_table([*both, split]).rows[0][:3] == ("hub", "2", "5")


def test_facets_are_in_natural_order():
    report = cross_validate(PROBLEMS, lambda training: Model())
    table = facet_table(report, "widths")
    assert [row[0] for row in table.rows] == ["64x32", "64x128"]
    assert table.header[-2:] == ("best fixed's", "roofline's")


def test_scores_come_in_a_fixed_order_and_notes_name_the_floor(card):
    for table in (scores_table(card.report), comparison_table(card.report)):
        assert [row[0] for row in table.rows[:3]] == ["oracle", MODEL, "best fixed, in hindsight"]
        assert table.rows[-1][0] == "vanilla"
        assert all(len(row) == len(table.header) for row in table.rows)
    assert "a regret of 1.000 or more" in " ".join(notes(card.report))


def test_tables_are_markdown():
    table = TextTable("t", ("name", "n"), (("a", "1"), ("b", "2")), frozenset({"b"}))
    assert table.as_markdown() == "| name | n |\n| --- | --: |\n| a | 1 |\n| **b** | **2** |\n"


def test_points_are_in_the_report(card):
    assert card.report.points["fused"].predicted[0] == 1.1
    assert isinstance(card.report.points["fused"], Points)


def of_two_families(seconds, relative_error=0.0):
    """Problems of a chooser that takes the first of these times."""
    found = [problem(seconds, graph=f"g{n}", family=f"f{n % 2}") for n in range(4)]
    noisy = [
        replace(
            p, candidates=tuple(replace(c, error=relative_error * c.seconds) for c in p.candidates)
        )
        for p in found
    ]
    return cross_validate(noisy, lambda training: Model())


def test_ratios_that_say_nothing_are_dashes_with_the_reason():
    report = of_two_families({"a": 1e-9, "b": 1e-300})
    cells = [cell for row in comparison_table(report).rows for cell in row]
    assert max(map(len, cells)) < 40
    assert notes(report)[-1].startswith("– stands for what was not measured, and for ratios above")


def test_a_noise_floor_of_times_that_are_noise_is_not_shown():
    assert (
        "Measure again when the machine is idle"
        in notes(of_two_families({"a": 1.0, "b": 1.1}, 9))[0]
    )
    assert "a regret of 1.0" in notes(of_two_families({"a": 1.0, "b": 1.1}, 0.01))[0]


@drawn
@pytest.mark.parametrize(
    ("low", "high"), [(0.02, 0.05), (0.031, 0.033), (1, 9), (1e-3, 80), (1e-6, 1e6), (1, 1e300)]
)
def test_labels_of_an_axis_do_not_overlap(low, high):
    from hetune.costmodel.evaluate.plots import _log_ticks

    ticks = _log_ticks(low, high)
    assert 2 <= len(ticks) <= 6
    assert low <= min(ticks) < max(ticks) <= high
    shares = np.diff(np.log(ticks)) / np.log(high / low)
    assert min(shares) > 0.07
