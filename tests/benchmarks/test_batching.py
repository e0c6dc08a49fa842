"""The benchmark of joined requests runs, and they are joined."""

import json
from argparse import Namespace

import batching
import pytest
from _batching_load import load
from tests.full import whole


@pytest.mark.slow
def test_both_ways_are_measured_and_kept(tmp_path, capsys):
    out = tmp_path / "out.json"
    arguments = ("--edges", "60", "--requests", "2", "--rounds", "2", "--out", str(out))
    assert batching.main([*arguments, "--clients"]) == 0
    cells = json.loads(out.read_text())["cells"]
    assert [cell["model"] for cell in cells] == list(batching.MODELS)
    assert [cell["joined"] for cell in cells] == [2, 2]
    assert "ratio" in capsys.readouterr().out


@whole
@pytest.mark.slow
def test_both_services_are_asked():
    graph = batching.drawn(60)
    options = Namespace(clients=[2], seconds=0.2, turns=1, requests=[2], threads=1)
    [cell] = load(graph, batching.layers(batching.MODELS[0], graph, 64), 64, options)
    assert cell["clients"] == 2
    assert all(cell[name]["requests_per_second"] > 0 for name in ("apart", "together"))
