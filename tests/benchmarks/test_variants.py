"""Every variant of a cell is timed, and rows are counted."""

import json

import pytest
import torch

pytest.importorskip("torch_geometric")

import variants

from hetune import HeteroGraph
from hetune.variants.testing.graphs import typed_graph


def test_a_cell_has_all_variants(tmp_path, monkeypatch, capsys):
    graph = typed_graph((9,), [(0, 0, 20)])
    monkeypatch.setattr(variants, "load_graph", lambda *_, **__: graph)
    out = tmp_path / "out.json"
    options = ["--graphs", "tiny", "--layers", "rgcn", "--widths", "8", "--rounds", "3"]
    assert variants.main([*options, "--budget", "0.1", "--out", str(out)]) == 0
    (cell,) = json.loads(out.read_text())["cells"]
    assert cell["chosen"] in cell["variants"]
    assert cell["variants"].keys() | cell["not_timed_ms"].keys() >= cell["predicted_ms"].keys()
    assert "regret" in capsys.readouterr().out


def test_the_bound_is_a_vertex_cover():
    # One source with three edges, and one destination of three: two rows will do.
    src, dst = torch.tensor([(0, 1), (0, 2), (0, 3), (4, 6), (5, 6), (1, 6)]).T
    graph = HeteroGraph(src, dst, torch.zeros(6, dtype=torch.int64))
    found = variants.transformed_rows(graph)
    assert found == {"edges": 6, "src_pairs": 4, "dst_pairs": 4, "hybrid": 4, "bound": 2}
