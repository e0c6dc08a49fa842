"""The benchmark of edits runs, and compares what it says."""

import json

import edits
import pytest
import torch

from hetune.variants.graph.index import GraphIndex


def test_edits_are_measured_and_kept(tmp_path, capsys):
    out = tmp_path / "out.json"
    arguments = ("--edges", "3000", "--nodes", "400", "--etypes", "5", "--rounds", "2")
    assert edits.main([*arguments, "--sizes", "2", "40", "--out", str(out)]) == 0
    report = json.loads(out.read_text())
    assert [cell["edges_edited"] for cell in report["cells"]] == [2, 40]
    for cell in report["cells"]:
        assert cell["ratios"]["all"] == pytest.approx(
            cell["all, edited"]["median_ms"] / cell["all, anew"]["median_ms"], rel=0.05
        )
    assert "edited / anew" in capsys.readouterr().out


def test_half_of_an_edit_goes_and_half_comes():
    graph = edits.skewed_graph(500, 50, 3)
    GraphIndex.of(graph).indptr  # noqa: B018
    remove = edits.by_type(graph, torch.arange(20).numpy())
    assert sum(ends.shape[1] for ends in remove.values()) == 20
    assert edits.edit(graph, remove, {}).num_edges == 480
