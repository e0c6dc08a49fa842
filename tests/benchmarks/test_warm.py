"""Runs after others and after their own: what is made of the samples, and that all are taken."""

import json

import numpy as np
import warm

from hetune.variants.testing.graphs import typed_graph


def test_who_chooses_by_samples_is_judged_by_the_others():
    seconds = np.ones((len(warm.AFTER), 2, 8))
    seconds[0, 0, ::2] = 3.0  # looks slow without runs before, and is the fastest
    seconds[1:, 1] = 1.5
    found = warm.judged(["a", "b"], seconds)
    assert found["chosen"] == ["b", "a", "a", "a"]
    assert found["loss"] == [1.5, 1.0, 1.0, 1.0]
    assert found["best_ms"] == 1000.0


def test_spread_is_that_of_a_variant_s_own_samples():
    seconds = np.ones((len(warm.AFTER), 1, 8))
    seconds[0] = [1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0]
    seconds[1] *= 3
    found = warm.judged(["a"], seconds)
    assert found["spread"] == [2.0, 1.0, 1.0, 1.0]
    assert found["over_warm"] == [1.0, 3.0, 1.0, 1.0]


def test_inputs_are_sampled_and_kept(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(warm, "load_graph", lambda *_, **__: typed_graph((9,), [(0, 0, 20)]))
    out = tmp_path / "warm.json"
    options = ["--graphs", "tiny", "--layers", "rgcn", "--width", "8", "--rounds", "2"]
    assert warm.main([*options, "--out", str(out)]) == 0
    record = json.loads(out.read_text())
    assert [line["after"] for line in record["summary"]] == list(warm.AFTER)
    (cell,) = record["inputs"]
    assert (cell["graph"], cell["layer"]) == ("tiny", "rgcn")
    assert cell["variants"] > 1
    assert "greatest loss" in capsys.readouterr().out


def test_what_is_not_there_is_left_out(tmp_path, capsys):
    assert warm.main(["--graphs", "nowhere", "--out", str(tmp_path / "warm.json")]) == 0
    assert "nowhere is left out" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())
