"""What choosing costs, as its benchmark measures and tells it."""

import json

import choosing
import pytest
from choosing import measure, summary

from hetune.costmodel.selection.selector import Selector
from hetune.profiling.corpus import recipe
from hetune.profiling.units import ProblemSpec
from hetune.variants.frontend.presets import labeled_preset

TINY = recipe("tiny", "typed", options={"nodes": 20, "edges": 60, "etypes": 3})
SPEC, ATTENTIVE = (ProblemSpec(TINY, labeled_preset(name, 8, 8), 1) for name in ("rgcn", "rgat"))


def record(new: float, warm: float) -> dict[str, object]:
    """An input whose run takes 2 ms, and choosing on a new graph so many runs."""
    runs = {f"{name}_runs": 0.25 for name in choosing._IN_RUNS} | {"new_runs": new}
    ms = {f"{name}_ms": 2.0 for name in choosing._TIMES} | {"warm_ms": warm}
    return {"graph": "g", "layer": "rgcn", "d_in": 64, "d_out": 64, "paid": 0.5, **runs, **ms}


def test_the_summary_has_means_the_most_and_what_exceeds_a_run():
    found = summary([record(0.5, 0.4), record(2.0, 3.0)])
    assert found["new"] == {"geometric_mean": 1.0, "max": 2.0, "share_over_1": 0.5}
    assert found["paid"] == {"geometric_mean": 0.5, "max": 0.5, "share_over_1": 0.0}
    assert found["warm_ms"] == {"median": 1.7, "max": 3.0}


def test_overhead_is_measured_as_compiled_layers_select():
    found = measure(Selector.load(), ATTENTIVE, repeats=1)
    assert (found["graph"], found["layer"], found["d_out"]) == ("tiny", "rgat", 8)
    assert min(found[f"{name}_ms"] for name in choosing._TIMES) > 0
    assert found["new_runs"] == pytest.approx(found["new_ms"] / found["run_ms"], rel=0.1)
    assert found["calls"] >= 1


def test_without_graphs_nothing_is_written(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HETUNE_DATA", str(tmp_path))
    assert choosing.main(["--out", str(tmp_path / "out.json")]) == 0
    assert "skipped fb15k" in " ".join(capsys.readouterr().out.split())
    assert not (tmp_path / "out.json").exists()


def test_the_record_says_what_is_reached(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(choosing, "specs", lambda *_: (SPEC,))
    out = tmp_path / "out.json"
    assert choosing.main(["--out", str(out), "--repeats", "1"]) == 0
    held = json.loads(out.read_text())
    [row] = held["inputs"]
    assert held["summary"]["new"]["geometric_mean"] == pytest.approx(row["new_runs"], rel=1e-3)
    assert "(goal: at most 1)" in capsys.readouterr().out
