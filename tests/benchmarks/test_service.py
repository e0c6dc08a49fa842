"""What serving costs: both parts on a tiny graph, asked of this process and of a service."""

import json
from contextlib import contextmanager

import pytest
from tests.full import whole

pytest.importorskip("fastapi")

import service

TINY = service.Case(40, 160, 2, (8, 8, 4))
VARIANTS = ["vanilla/b1024"] * 2


def test_an_unknown_part_is_refused(tmp_path):
    with pytest.raises(SystemExit, match="no such part: medium"):
        service.main(["--parts", "medium", "--out", str(tmp_path / "out.json")])


def measured(tmp_path, monkeypatch) -> dict:
    for name in ("SMALL", "LARGE"):
        monkeypatch.setattr(service, name, TINY)
    out = tmp_path / "service.json"
    arguments = ["--rounds", "2", "--block", "2", "--large-rounds", "3", "--threads", "1"]
    assert service.main([*arguments, "--out", str(out)]) == 0
    first = out.read_text()
    assert service.main([*arguments, "--out", str(out)]) == 0
    assert out.read_text() == first  # what is known is not measured again
    return {cell["key"]: cell for cell in json.loads(first)["cells"]}


def check(cells: dict) -> None:
    assert set(cells) == set(service.PARTS)
    small, large = cells["small"]["candidates"], cells["large"]["candidates"]
    assert small["hetune, client"]["calls"] == 4
    assert large["in-process"]["calls"] == 3
    added = small["hetune, client"]["p50_ms"] - small["in-process"]["p50_ms"]
    assert cells["small"]["overhead"]["p50_ms"] == pytest.approx(added, abs=0.01)
    ratio = large["hetune, client"]["p50_ms"] / large["in-process"]["p50_ms"]
    assert cells["large"]["overhead"]["share"] == pytest.approx(ratio - 1, abs=0.01)


def test_every_part_is_measured_once_and_kept(tmp_path, monkeypatch, capsys):
    @contextmanager
    def served(case, threads):
        yield service.in_process(case, VARIANTS), VARIANTS

    monkeypatch.setattr(service, "served", served)
    check(measured(tmp_path, monkeypatch))
    assert "added, p99_ms" in capsys.readouterr().out


def test_another_output_than_the_run_s_has_no_time(monkeypatch):
    @contextmanager
    def served(case, threads):
        yield lambda x: x, VARIANTS

    monkeypatch.setattr(service, "served", served)
    with pytest.raises(RuntimeError, match="no time of it counts"):
        service._latencies(TINY, 1, 1, 1)


@whole
@pytest.mark.slow
def test_a_service_is_measured(tmp_path, monkeypatch):
    check(measured(tmp_path, monkeypatch))
