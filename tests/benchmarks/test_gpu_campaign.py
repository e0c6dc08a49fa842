"""A campaign for a GPU, interpreted: what is measured, kept, and learned from."""

import json
from dataclasses import replace
from pathlib import Path

import _gpu_campaign
import gpu_check
import pytest
from _gpu_campaign import (
    HELD_OUT,
    Profiling,
    into_store,
    judged,
    read_measurements,
    selection_lines,
    write_measurements,
)
from tests.costmodel import _synthetic_gpu

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
unit_seconds = 300
problem_seconds = 600
[[graphs]]
kind = "road"
nodes = 9
[[graphs]]
kind = "clique"
nodes = 6
"""

KEPT = ("dst/t64-e1024", "hybrid/t32-c4096")


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
        keep=lambda variant: variant in KEPT,
        # Interpreted, and beside other tests, a variant may take longer than any does on a GPU.
        limits=Limits(most_rounds=7, unit_seconds=300, problem_seconds=600),
    )


@pytest.mark.slow
def test_problems_are_measured_and_kept(preset, tmp_path):
    pytest.importorskip("triton")
    made = profiling(preset, tmp_path / "campaign")
    by_key = {unit.key: unit for unit in made.units()}
    held_out = [f"held-out/self loops/{layer}/4x4x1" for layer in _gpu_campaign.LAYERS]
    assert list(by_key)[-4:] == [*held_out, "selection"]
    for key in ("campaign/clique-1/rgcn/4x4x1", held_out[0]):
        found = by_key[key].run()
        assert found["variants"] == found["measured"] == len(KEPT)
        assert found["lost"] == {}
        assert found["best"] in KEPT
    with Store.open(tmp_path / "records.db") as store:
        assert into_store(made.folder, store) == 2 * len(KEPT)
        kept = list(store.measurements(device="cuda"))
    assert {m.variant for m in kept} == set(KEPT)
    assert {m.family for m in kept} == {"clique", "benchmark graphs"}

    # What launches amount to can be counted anew; times stay, and so do files.
    paths = sorted(made.folder.glob("*.gz"))
    before = [path.read_bytes() for path in paths]
    for path in paths:
        forgotten = [
            replace(m, launches=tuple(replace(launch, columns=(0.0,)) for launch in m.launches))
            for m in read_measurements(path)
        ]
        write_measurements(path, forgotten)
    assert made.recount() == 2
    assert [path.read_bytes() for path in paths] == before
    write_measurements(paths[0], [replace(m, graph_fingerprint="0") for m in forgotten])
    with pytest.raises(ValueError, match="another graph was measured"):
        made.recount()


def test_a_model_of_the_campaign_is_judged_on_the_graphs_held_out(tmp_path, monkeypatch):
    known = [
        replace(p, family=HELD_OUT if p.family == "hubs" else p.family)
        for p in _synthetic_gpu.problems()
    ]
    monkeypatch.setattr("hetune.profiling.store.problems.problems", lambda *_, **__: known)
    facts = _synthetic_gpu.FINGERPRINT.as_dict()
    (tmp_path / "machine.json").write_text(json.dumps(facts))
    found = judged(tmp_path)
    assert (found["trained_on"], found["judged_on"]) == (18, 6)
    assert {"cost model", "oracle", "roofline model"} <= set(found["scores"])
    assert all(score["worst"] >= score["regret"] >= 1 for score in found["scores"].values())
    assert json.loads(json.dumps(found)) == found
    lines = selection_lines({"selection": found})
    assert "trained on 18 problems, judged on 6" in lines[0]
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
