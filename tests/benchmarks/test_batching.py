"""The benchmark of joined requests asks two services."""

import json

import batching
import pytest
from tests.full import whole


@whole
@pytest.mark.slow
def test_both_services_are_asked(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(batching, "MODELS", batching.MODELS[:1])
    out = tmp_path / "out.json"
    few = ["--edges", "60", "--clients", "2", "--seconds", "0.2", "--turns", "1", "--threads", "1"]
    assert batching.main([*few, "--out", str(out)]) == 0
    (cell,) = json.loads(out.read_text())["http"]
    assert cell["clients"] == 2
    assert all(cell[name]["requests_per_second"] > 0 for name in ("apart", "together"))
    assert "requests/s" in capsys.readouterr().out
