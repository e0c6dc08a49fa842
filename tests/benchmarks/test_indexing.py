"""What indexing costs: all of it once on a small graph."""

import json

import indexing
import pytest

pytest.importorskip("torch_geometric.nn")


def test_indexes_are_built_and_timed(tmp_path, capsys):
    out = tmp_path / "out.json"
    size = ("--edges", "400", "--nodes", "90", "--etypes", "5")
    rounds = ("--rounds", "2", "--new-graphs", "2")
    assert indexing.main([*size, *rounds, "--out", str(out)]) == 0
    held = json.loads(out.read_text())
    assert held["graph"] == {"edges": 400, "nodes": 90, "etypes": 5}
    assert held["native"]["bytes"] > 0
    assert 0 < held["hybrid"]["seconds_min"] <= held["hybrid"]["seconds_median"]
    assert min(held["new_graphs"]["seconds"]["GCNConv"].values()) > 0
    assert "all indexes" in capsys.readouterr().out
