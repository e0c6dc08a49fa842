"""Every form of a layer of one edge type is PyG's in float64; and a cell end to end."""

import json

import pytest

pytest.importorskip("torch_geometric")

import _memory
import homogeneous
from _peers.homogeneous import LAYERS
from tests.benchmarks.test_run import folder  # noqa: F401

from hetune.variants.runtime.roofline import MachineModel

FAMILIES = [
    pytest.param("pyg"),
    pytest.param("expert"),
    pytest.param("dgl", marks=pytest.mark.dgl),
]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("widths", [(5, 3), (3, 5)], ids=["narrows", "widens"])
@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.filterwarnings("ignore")
def test_forms_are_pyg_s(layer, widths, family):
    if family == "dgl":
        pytest.importorskip("dgl")
    cell = homogeneous.HomogeneousCell(layer, "mycielskian5", *widths)
    problem = cell.problem()
    with cell.mode():
        want, _ = cell.reference(problem, "full")
        for candidate in cell.candidates(only=[family]):
            assert cell.error(problem, candidate.build(problem)(), want) < 1e-5, candidate.name


@pytest.mark.filterwarnings("ignore")
def test_a_cell_is_measured_and_told(folder, monkeypatch, capsys):  # noqa: F811
    monkeypatch.setattr("_cpu_peers.probe", lambda *_, **__: _memory.Probe("ok", seconds=1e-3))
    monkeypatch.setattr("_bound.limits", lambda _: MachineModel())
    out = folder / "out.json"
    what = ("--layers", "gcn", "--graphs", "mycielskian5", "--widths", "8x4", "--rounds", "3")
    options = ("--threads", "1", "--only", "hetune,expert,pyg/adj_t", "--out", str(out))
    assert homogeneous.main([*what, *options]) == 0
    (cell,) = json.loads(out.read_text())["cells"]
    assert (cell["key"], cell["nodes"], cell["roofline_ms"] > 0) == (
        "gcn/mycielskian5/8x4",
        23,
        True,
    )
    assert [c["status"] for c in cell["candidates"]] == ["ok"] * 3, cell
    assert cell["candidates"][0]["ran"].startswith("compiled; the last call ran")
    assert "| GCN |" in capsys.readouterr().out
