"""The results file and what is drawn from it."""

import json

import _machine
import _registry
import pytest
from _cells import Cell
from _peer_tables import slowdown
from _results import (
    SCHEMA,
    Results,
    best_peer,
    held_cells,
    memory_ratio,
    print_cells,
    share_of_roofline,
    times,
)
from rich.console import Console

MACHINE = {"digest": "m1"}


def candidate(name: str, ms: float | None, peak: int = 8_000_000, **more) -> dict:
    times = {} if ms is None else {"times_ms": [ms], "median_ms": ms, "min_ms": ms, "iqr_ms": 0.0}
    entry = {"name": name, "model": "full", "status": "ok", "preprocess_s": 0.5}
    return {**entry, **times, "peak_bytes": peak, "total_bytes": peak + 1, **more}


def cell(*candidates: dict, graph: str = "aifb") -> dict:
    return {
        "key": f"rgcn/{graph}/64x1",
        "layer": "rgcn",
        "graph": graph,
        "width": 64,
        "heads": 1,
        "candidates": list(candidates),
    }


FULL = cell(
    candidate("hetune/compile", 2.0, 2_000_000),
    candidate("expert/smaller side", 6.0),
    candidate("expert/compaction", 10.0),
    candidate("pyg/RGCNConv", 80.0),
    candidate("pyg/FastRGCNConv", 1.0, status="wrong", detail="relative error 1"),
    {"name": "dgl/RelGraphConv", "model": "full", "status": "out of memory", "detail": "x"},
)


def test_only_correct_times_count():
    assert "pyg/FastRGCNConv" not in times(FULL)
    assert best_peer(FULL) == ("expert/smaller side", 6.0)
    assert slowdown(FULL, "fastest peer") == pytest.approx(3.0)
    assert slowdown(FULL, "expert") == pytest.approx(5.0)
    assert memory_ratio(FULL) == pytest.approx(0.25)


def test_without_hetune_there_is_no_ratio():
    alone = cell(candidate("pyg/RGCNConv", 80.0))
    assert slowdown(alone, "fastest peer") is None
    assert memory_ratio(alone) is None
    assert best_peer(cell()) is None


def test_the_roofline_bounds_what_can_be_won():
    bounded = FULL | {"roofline_ms": 1.5}
    assert share_of_roofline(bounded) == pytest.approx(0.75)
    assert share_of_roofline(FULL) is None


def test_results_resume_on_the_same_machine_and_commit_only(tmp_path):
    path = tmp_path / "new" / "peers.json"
    Results.open(path, MACHINE, "c1").put(FULL)
    again = Results.open(path, MACHINE, "c1")
    assert again.has(FULL["key"], ["pyg/RGCNConv", "hetune/compile"])
    assert not again.has(FULL["key"], ["pyg/RGCNConv+compile"])
    assert not Results.open(path, MACHINE, "c1", fresh=True).cells
    for machine, commit in ((MACHINE, "c2"), ({"digest": "m2"}, "c1")):
        with pytest.raises(SystemExit, match=r"holds 1 cells .* another machine or commit: pass"):
            Results.open(path, machine, commit)
        assert not Results.open(path, machine, commit, fresh=True).cells
    assert held_cells(path) == again.cells
    assert not held_cells(path.with_name("none.json"))


def test_results_file_schema(tmp_path):
    path = tmp_path / "peers.json"
    results = Results.open(path, MACHINE, "c1")
    results.put(FULL)
    results.put(cell(candidate("pyg/RGCNConv", 1.0), graph="am"))
    held = json.loads(path.read_text())
    assert held["schema"] == SCHEMA
    assert held["machine"] == MACHINE
    assert [c["key"] for c in held["cells"]] == ["rgcn/aifb/64x1", "rgcn/am/64x1"]
    assert held["cells"][0]["machine"] == "m1"
    assert held["cells"][0]["commit"] == "c1"
    assert held["cells"][0]["measured_at"].endswith("Z")
    assert [p.name for p in tmp_path.iterdir()] == ["peers.json"]


def test_cells_are_shown_with_what_went_wrong(tmp_path):
    with (tmp_path / "out").open("w") as out:
        console = Console(width=200, record=True, file=out)
        print_cells([FULL | {"roofline_ms": 1.5}], console)
    lines = console.export_text().splitlines()
    assert "  hetune/compile: 2 ms (+500.0 ms), 2 MB fastest" in lines
    assert "  expert/compaction: 10 ms (+500.0 ms), 8 MB" in lines
    assert "  pyg/FastRGCNConv: wrong, 8 MB" in lines
    assert "  dgl/RelGraphConv: out of memory" in lines
    assert lines[-2:] == ["  roofline / hetune: 0.75", "  memory, hetune / PyG: 0.25"]


def test_fingerprint_depends_on_threads():
    one, two = _machine.fingerprint(1), _machine.fingerprint(2)
    assert one == _machine.fingerprint(1)
    assert one["digest"] != two["digest"]
    assert {"cpu", "cores", "memory_gib", "system", "compiler", "peers"} <= one.keys()


def test_only_selects_families_and_patterns():
    names = [c.name for c in _registry.candidates("rgcn", only=["dgl", "expert/comp*"])]
    assert names == [
        "expert/compaction",
        "expert/compaction, csr",
        "dgl/RelGraphConv",
        "dgl/RelGraphConv sorted",
    ]
    every = [c.name for c in _registry.candidates("rgcn")]
    assert [name for name in every if name.startswith("hetune/")] == ["hetune/compile"]
    small = "hetune/least memory"
    assert [c.name for c in _registry.candidates("rgcn", only=["hetune"])] == ["hetune/compile"]
    assert [c.name for c in _registry.candidates("rgcn", only=[small])] == [small]
    assert Cell("rgcn", "any", 8, 1).find(small).name == small
    assert not any("compile" in name for name in every if name.startswith("pyg"))
    assert any("+compile" in c.name for c in _registry.candidates("hgt", compiled=True))
