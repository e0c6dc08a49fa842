"""A fresh process finds everything that another one has compiled."""

import json

import pytest
import startup


@pytest.mark.slow
def test_a_start_is_warm(tmp_path, capsys):
    out = tmp_path / "out.json"
    few = ["--layers", "rgcn", "--widths", "4", "--starts", "1"]
    assert startup.main([*few, "--out", str(out)]) == 0
    record = json.loads(out.read_text())
    assert record["build"]["variants"] > record["warm_start"]["starts"] == 1
    assert list(record["warm_start"]["phases"])[-1] == "load kernels"
    assert "warm start, median and least of 1 processes" in capsys.readouterr().out
