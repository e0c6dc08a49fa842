"""What choosing costs, as its benchmark measures and tells it."""

import io
import json
from dataclasses import replace

import choosing
import pytest
from choosing import Overhead, as_json, goals, measure, summary, table
from rich.console import Console

from hetune.costmodel.selector import Selector
from hetune.profiling.corpus import recipe
from hetune.profiling.units import ProblemSpec
from hetune.variants.frontend.presets import labeled_preset


def test_overhead_is_in_runs_of_what_was_chosen():
    one = Overhead(
        *("g", "rgcn", 64, 64, "a"),
        run=2e-3,
        new=1e-3,
        features=6e-4,
        scoring=5e-4,
        warm=4e-4,
        known=1e-5,
        from_nothing=4e-3,
        usual=1e-3,
        calls=4,
    )
    two = replace(one, new=4e-3, warm=3e-3)
    (row, _) = as_json([one, two])
    assert (row["run_ms"], row["new_ms"], row["new_runs"]) == (2.0, 1.0, 0.5)
    found = summary([one, two])
    assert found["new"] == {"geometric_mean": 1.0, "max": 2.0, "share_over_1": 0.5}
    assert found["from_nothing"]["share_over_1"] == 1.0
    assert (row["calls"], row["paid"]) == (4, 0.25)
    assert found["paid"] == {"geometric_mean": 0.5, "max": 1.0, "share_over_1": 0.0}
    assert found["warm_ms"] == {
        "median": 1.7,
        "max": 3.0,
        "share_over_2": 0.5,
        "share_over_0.5": 0.5,
    }
    reached = list(goals([one, two]).values())
    assert [goal["reached"] for goal in reached] == [1.0, 3.0, 1.7]
    assert [goal["met"] for goal in reached[1:]] == [False, False]
    assert [goal["met"] for goal in goals([one]).values()] == [True, True, True]


def test_the_table_fits_a_hundred_columns():
    most = Overhead(
        *("know2bio_sample", "rgat", 128, 128, "a"),
        run=0.1,
        new=99.9,
        features=99.9,
        scoring=0.12,
        warm=0.11,
        known=1.5,
        from_nothing=99.9,
        usual=0.1,
        calls=1000,
    )
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(table([most, replace(most, run=0.999, calls=1)]))
    text = console.export_text()
    assert "…" not in text
    title, *_, first, second, mean, maximum = filter(str.strip, text.splitlines())
    assert title.strip() == "selection, in runs of the chosen layer"
    assert first.split()[:3] == ["know2bio_sample", "rgat", "128x128"]
    assert first.split()[3:] == [
        *("100.000", "999.000", "999.000", "1.200", "110.00", "15.000", "999.000", "1000"),
        "0.999",
    ]
    assert (second.split()[3], second.split()[-1]) == ("999.000", "999.000")
    assert (mean.split()[:2], maximum.split()[0]) == (["geometric", "mean"], "maximum")


def test_overhead_is_measured_as_compiled_layers_select():
    tiny = recipe("tiny", "typed", options={"nodes": 20, "edges": 60, "etypes": 3})
    found = measure(
        Selector.load(), ProblemSpec(tiny, labeled_preset("rgat", 8, 8, 1), 1), repeats=1
    )
    assert (found.graph, found.layer, found.d_out) == ("tiny", "rgat", 8)
    assert min(getattr(found, name) for name in choosing._TIMES) > 0
    assert found.calls >= 1


def test_without_graphs_nothing_is_written(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HETUNE_DATA", str(tmp_path))
    assert choosing.main(["--out", str(tmp_path / "out.json")]) == 0
    assert "skipped fb15k" in " ".join(capsys.readouterr().out.split())
    assert not (tmp_path / "out.json").exists()


def test_the_record_says_what_is_reached(tmp_path, monkeypatch, capsys):
    tiny = recipe("tiny", "typed", options={"nodes": 20, "edges": 60, "etypes": 3})
    spec = ProblemSpec(tiny, labeled_preset("rgcn", 8, 8, 1), 1)
    monkeypatch.setattr(choosing, "specs", lambda *_: (spec,))
    out = tmp_path / "out.json"
    assert choosing.main(["--out", str(out), "--repeats", "1"]) == 0
    record = json.loads(out.read_text())
    [row] = record["inputs"]
    assert (row["graph"], row["layer"]) == ("tiny", "rgcn")
    assert record["summary"]["new"]["geometric_mean"] == pytest.approx(row["new_runs"], rel=1e-3)
    said = " ".join(capsys.readouterr().out.split())
    for name, goal in record["goals"].items():
        met = "met" if goal["met"] else "missed"
        assert f"{name}: {goal['reached']} (goal: less than {goal['goal']:g}, {met})" in said
    assert [goal["goal"] for goal in record["goals"].values()] == [1.0, 2.0, 0.5]
