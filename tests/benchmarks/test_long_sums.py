"""Errors at hubs are measured, printed and kept."""

import json

import long_sums
import pytest


@pytest.mark.slow
def test_a_hub_is_measured(capsys, tmp_path):
    out = tmp_path / "sums.json"
    chosen = ("--edges", "2000", "--widths", "1", "--layers", "rgcn-mean", "--constant", "0.7")
    assert long_sums.main((*chosen, "--out", str(out))) == 0
    assert "rgcn-mean" in capsys.readouterr().out
    (cell,) = json.loads(out.read_text(encoding="utf-8"))["cells"]
    assert 0 <= max(cell["errors"].values()) < 1e-5
