"""The benchmark of rows of a few nodes runs, and its fit finds what was put in."""

import json

import pytest
import reach


@pytest.mark.slow
def test_both_ways_are_measured_and_kept(tmp_path, capsys):
    out = tmp_path / "out.json"
    arguments = ("--edges", "2000", "--nodes", "500", "--etypes", "3", "--width", "8")
    assert reach.main([*arguments, "--sizes", "1", "9", "--rounds", "2", "--out", str(out)]) == 0
    report = json.loads(out.read_text())
    assert [cell["nodes_asked_for"] for cell in report["cells"]] == [1, 9]
    assert report["seconds_for_each"].keys() == {"graphs", "edges", "nodes"}
    assert "whole, ms" in capsys.readouterr().out


def test_the_fit_finds_the_seconds_for_each():
    cells = []
    for graphs, edges, nodes in ((2, 10, 9), (2, 5000, 800), (3, 90_000, 70_000), (4, 2000, 9000)):
        ms = 1e3 * (4e-3 * graphs + 1e-7 * edges + 5e-8 * nodes)
        times = {"reach": {"median_ms": ms + 1.5}, "reach, run alone": {"median_ms": 1.5}}
        cells.append({"graphs": graphs, "edges": edges, "nodes": nodes, **times})
    found = reach.fitted(cells)
    assert found == pytest.approx({"graphs": 4e-3, "edges": 1e-7, "nodes": 5e-8})
