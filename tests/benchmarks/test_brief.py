"""The benchmark of brief requests runs, and asks all services for both graphs."""

import json

import brief
import pytest
from _service_cases import Case
from tests.full import whole


@whole
@pytest.mark.slow
def test_both_ways_are_asked(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(brief, "LARGER", Case(80, 400, 2, (8, 8, 4)))
    out = tmp_path / "brief.json"
    options = ["--rounds", "1", "--block", "2", "--threads", "1", "--out", str(out)]
    assert brief.main(options) == 0
    told = capsys.readouterr().out
    cells = json.loads(out.read_text())["cells"]
    assert all(cell["requests"] == 2 and cell["p50_ms"] > 0 for cell in cells)
    assert {(cell["asked"], cell["service"]) for cell in cells} == {
        (what, service)
        for what in ("small, alone", "small, in turns", "larger, in turns")
        for service in brief.SERVICES
    }
    for what in ("small, alone", "small, in turns", "larger, in turns"):
        assert told.count(what) == len(brief.SERVICES)
