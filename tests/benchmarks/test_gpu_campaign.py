"""A campaign for a GPU, interpreted: what is measured, kept, and learned from."""

import json
from pathlib import Path

import _gpu_campaign
import gpu_check
import pytest
from _gpu_campaign import Profiling, into_store, judged, selection_lines

from hetune.profiling.measure.limits import Limits
from hetune.profiling.store.store import Store

SMALL = """
name = "small"
device = "cuda"
layers = ["rgcn", "rgat"]
squared = [4]
threads = [1]
[limits]
rounds = 7
most_rounds = 7
[[graphs]]
kind = "road"
nodes = 9
[[graphs]]
kind = "clique"
nodes = 6
"""
KEPT = [
    f"{plan}/t{rows}-e{elements}"
    for plan in ("vanilla", "dst")
    for rows in (32, 64, 128)
    for elements in (512, 1024, 2048)
]
"""As many as a cost model needs."""


@pytest.fixture
def preset(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return path


def profiling(preset: Path, folder: Path) -> Profiling:
    return Profiling(
        folder,
        "cpu",
        ["self loops"],
        width=4,
        preset=preset,
        keep=KEPT.__contains__,
        limits=Limits(most_rounds=7),
    )


@pytest.mark.slow
def test_a_campaign_is_measured_kept_and_judged(preset, tmp_path):
    pytest.importorskip("triton")
    made = profiling(preset, tmp_path / "campaign")
    by_key = {unit.key: unit for unit in made.units()}
    assert list(by_key)[-4:] == [
        *(f"held-out/self loops/{layer}/4x4x1" for layer in _gpu_campaign.LAYERS),
        "selection",
    ]
    measured = [k for k in by_key if "rgcn" in k]
    assert len(measured) == 3
    for key in measured:
        found = by_key[key].run()
        assert found["variants"] == found["measured"] == len(KEPT)
        assert found["lost"] == {}
        assert found["best"] in KEPT
    with Store.open(tmp_path / "records.db") as store:
        assert into_store(made.folder, store) == 3 * len(KEPT)
        assert {m.device for m in store.measurements(device="cuda")} == {"cuda"}
    found = by_key["selection"].run()
    assert (found["trained_on"], found["judged_on"]) == (2, 1)
    assert {"cost model", "oracle"} <= set(found["scores"])
    assert json.loads(json.dumps(found)) == found
    lines = selection_lines({"selection": found})
    assert "trained on 2 problems, judged on 1" in lines[0]
    assert len(lines) == 1 + len(found["scores"])


def test_where_nothing_trains_it_says_so(preset, tmp_path, monkeypatch):
    made = profiling(preset, tmp_path)
    monkeypatch.setattr(_gpu_campaign.importlib.util, "find_spec", lambda name: None)
    assert "xgboost, sqlalchemy, alembic not here" in made.selection()["skipped"]


def test_a_folder_is_judged_elsewhere(tmp_path, monkeypatch, capsys):
    scores = {"cost model": {"regret": 1.01, "p95": 1.1, "worst": 1.2}}
    told = {"trained_on": 2, "judged_on": 1, "floor": 1.0, "scores": scores}
    monkeypatch.setattr(gpu_check, "judged", lambda folder: told)
    assert gpu_check.main(["--judge", str(tmp_path)]) == 0
    assert "1.010   1.100   1.200" in capsys.readouterr().out


def test_without_a_campaign_there_is_nothing_to_judge(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"machine\.json"):
        judged(tmp_path)
