"""Choices of today are compared with recorded ones, and judged as far as times are known."""

import json

import choices

ROW = {"input": "rgcn/tiny/8x8", "oracle": "a 1", "cost model": "b 1.21", "roofline model": "a 1"}


def test_choices_are_judged_by_the_times_in_the_results():
    known = {ROW["input"]: choices.times_of(ROW)}
    assert known == {"rgcn/tiny/8x8": {"a": 1.0, "b": 1.21}}
    said = choices.verdict({"rgcn/tiny/8x8": "b"}, known)
    assert said == "times are known of 1 choices: regret 1.210"
    assert choices.verdict({"rgcn/tiny/8x8": "c"}, known).startswith("times are known of 0")


def test_what_differs_is_told(tmp_path, monkeypatch, capsys):
    inputs = json.loads(choices._RESULTS.read_text())["inputs"][:2]
    first, second = (row["input"] for row in inputs)
    monkeypatch.setattr(choices, "chosen", lambda wanted: {first: "x", second: "y"})
    old, out = tmp_path / "old.json", tmp_path / "new.json"
    old.write_text(json.dumps({first: "x", second: "z"}))
    assert choices.main(["--read", str(old), "--out", str(out)]) == 1
    assert f"  {second}: z -> y" in capsys.readouterr().out
    assert choices.main(["--read", str(out), "--out", str(out)]) == 0
