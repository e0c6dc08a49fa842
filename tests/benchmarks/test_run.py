"""One cell end to end, in a process of its own as users run it."""

import itertools
import json
import sys
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch_geometric")

import _cells
import _memory
import peers
from _peers.problem import Candidate

from hetune.variants.exhaustion import is_out_of_memory


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """A folder of data with one small graph, "tiny"."""
    (tmp_path / "graphs").mkdir()
    random = np.random.default_rng(0)
    np.savez(
        tmp_path / "graphs" / "tiny.npz",
        src=random.integers(0, 50, 400).astype(np.int32),
        dst=random.integers(0, 50, 400).astype(np.int32),
        etype=np.sort(random.integers(0, 4, 400)).astype(np.int16),
        ntype=np.zeros(50, dtype=np.int16),
        etype_names=np.array(["a", "b", "c", "d"]),
        ntype_names=np.array(["node"]),
    )
    monkeypatch.setenv("HETUNE_DATA", str(tmp_path))
    return tmp_path


def run(folder: Path, *arguments: str) -> dict:
    out = folder / "out.json"
    common = ("--graphs", "tiny+inv", "--rounds", "3", "--threads", "1", "--widths", "8")
    assert peers.main([*common, "--out", str(out), *arguments]) == 0
    return json.loads(out.read_text())


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="peak memory needs /proc")
@pytest.mark.filterwarnings("ignore")
def test_a_cell_is_measured_checked_and_kept(folder, capsys):
    arguments = ("--layers", "rgcn", "--only", "pyg/RGCNConv,expert/compaction")
    held = run(folder, *arguments)
    (cell,) = held["cells"]
    assert (cell["nodes"], cell["edges"], cell["etypes"]) == (50, 800, 8)
    assert cell["references"] == {"full": "PyG"}
    assert [c["status"] for c in cell["candidates"]] == ["ok", "ok"]
    for candidate in cell["candidates"]:
        assert len(candidate["times_ms"]) == 3
        assert candidate["relative_error"] < 1e-5
        assert candidate["total_bytes"] >= candidate["peak_bytes"] >= 0
        assert candidate["preprocess_s"] >= 0
    assert "RGCNConv" in capsys.readouterr().out
    again = run(folder, *arguments)
    assert again["cells"][0]["measured_at"] == cell["measured_at"]


@pytest.mark.filterwarnings("ignore")
def test_preparation_is_what_the_first_call_takes_beyond_those_that_are_timed(folder, monkeypatch):
    """Another process's second call may take any time."""

    def build(problem):
        time.sleep(0.1)
        calls = itertools.count()

        def call():
            if next(calls) == 0:
                time.sleep(0.1)
            return problem.conv(problem.x, problem.edge_index, problem.edge_type)

        return call

    slow = Candidate("expert/slow to start", "rgcn", build)
    monkeypatch.setattr("_cells.candidates", lambda *_, **__: [slow])
    monkeypatch.setattr("_cpu_peers.probe", lambda *_, **__: _memory.Probe("ok", seconds=10.0))
    (cell,) = run(folder, "--layers", "rgcn")["cells"]
    (found,) = cell["candidates"]
    assert found["status"] == "ok"
    assert 0.2 <= found["preprocess_s"] + found["median_ms"] / 1e3 < 9


def test_a_missing_graph_is_said_and_skipped(folder, capsys):
    assert peers.main(["--graphs", "nowhere", "--out", str(folder / "out.json")]) == 0
    assert "no graph 'nowhere'" in " ".join(capsys.readouterr().out.split())


def test_an_unknown_layer_is_refused(folder):
    with pytest.raises(SystemExit, match="no such layer: gin"):
        peers.main(["--layers", "gin"])


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="peak memory needs /proc")
@pytest.mark.filterwarnings("ignore")
def test_too_little_memory_is_recorded_as_such(folder):
    cell = _cells.Cell("rgcn", "tiny+inv", 512, 1)  # a weight per edge: 800 MiB
    found = _memory.probe(cell, "pyg/FastRGCNConv", threads=1, limit_bytes=1 << 20, timeout=60)
    assert found.status == "out of memory", found.detail


def test_errors_of_memory_are_told_from_others():
    lost = RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried")
    assert is_out_of_memory(lost)
    assert is_out_of_memory(MemoryError())
    assert not is_out_of_memory(RuntimeError("shapes cannot be multiplied"))
    assert _memory.describe(ValueError("one\ntwo")) == "ValueError: one"
