"""What features cost, as their benchmark tells it."""

import json
import re

import pytest

pytest.importorskip("torch_geometric", reason="no torch_geometric: pip install it")

import features


def cell(features_ms, run_ms):
    times = {"features": features_ms, "run": run_ms}
    candidates = [{"name": n, "median_ms": t, "min_ms": t / 2} for n, t in times.items()]
    return {"layer": "rgcn", "width": 32, "edges": 10, "candidates": candidates}


@pytest.mark.parametrize(
    ("second", "says"),
    [
        (0.25, r"take 0\.35 runs .* less than 1 is met\), and 1 or more on 0 of 2"),
        (8.0, r"take 2\.00 runs .* less than 1 is missed\), and 1 or more on 1 of 2"),
    ],
)
def test_the_goal_is_judged_by_the_geometric_mean(second, says):
    cells = [cell(1.0, 2.0), cell(second, 1.0)]
    assert features.ratios(cells) == [0.5, second]
    assert re.search(says, features.verdict(cells))


def test_inputs_are_measured_kept_and_told(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(features, "load_graph", lambda name, canonical: None)
    monkeypatch.setattr(features, "measure", lambda problem, options: cell(1.0, problem.width / 8))
    out = tmp_path / "features.json"
    assert features.main(["--graphs", "tiny", "--widths", "16,32", "--out", str(out)]) == 0
    assert [c["key"] for c in json.loads(out.read_text())["cells"]] == [
        "rgcn/tiny/16", "rgcn/tiny/32",
    ]  # fmt: skip
    said = " ".join(capsys.readouterr().out.split())
    assert "features take 0.35 runs of the fastest variant" in said


def test_without_graphs_nothing_is_written(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HETUNE_DATA", str(tmp_path))
    out = tmp_path / "features.json"
    assert features.main(["--graphs", "fb15k", "--out", str(out)]) == 0
    assert "skipped fb15k" in capsys.readouterr().out
    assert not out.exists()
