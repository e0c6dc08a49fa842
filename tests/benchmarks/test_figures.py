"""Figures in README and documents are those of the results files."""

import json

import figures
import pytest


@pytest.mark.parametrize("path", figures.outputs(), ids=lambda path: path.name)
def test_documents_have_the_figures_of_the_results(path):
    assert path.read_text("utf-8") == figures.outputs()[path], "run python benchmarks/figures.py"


def test_readme_and_performance_have_figures():
    marked = {path.name for path in figures.outputs()}
    assert {"README.md", "performance.md", "slowdown.svg"} <= marked


def test_what_stands_between_the_marks_is_replaced(monkeypatch, tmp_path):
    (tmp_path / "benchmarks" / "results").mkdir(parents=True)
    made_up = {"a b": [{"c": 1.25}]}
    (tmp_path / "benchmarks" / "results" / "x_zen4.json").write_text(json.dumps(made_up))
    monkeypatch.setattr(figures, "ROOT", tmp_path)
    before = "It is <!--figures:value;x_zen4;a b/0/c;.1f-->9<!--/figures-->x."
    assert figures.filled(before) == before.replace("9", "1.2")
    with pytest.raises(KeyError):
        figures.filled("<!--figures:nothing--><!--/figures-->")


def test_results_are_few():
    files = list((figures.ROOT / "benchmarks" / "results").rglob("*"))
    assert len(files) <= 24
    assert sum(path.stat().st_size for path in files) <= 3 << 20
