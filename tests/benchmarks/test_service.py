"""What serving costs: how loads are counted, and all parts once on tiny graphs."""

import asyncio
import json
import threading
import time
from contextlib import nullcontext
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from tests.full import whole

pytest.importorskip("torch_geometric")
pytest.importorskip("fastapi")

import service
from _service_cases import Case
from _service_load import Report, Shot, _Load, shoot
from _service_servers import hetune_target, peer_target

TINY = Case(40, 160, 2, (8, 8, 4))
REPORT = Report(2.0, [0.001, 0.003], [0.0005, 0.0007], 1, {"500": 1}, 3)


class Answering(BaseHTTPRequestHandler):
    """Answers 200, 429 with and without a time to come back, and 503, in turn."""

    protocol_version = "HTTP/1.1"
    turn = 0

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        status, headers = [(200, {}), (429, {"Retry-After": "1"}), (429, {}), (503, {})][
            Answering.turn % 4
        ]
        Answering.turn += 1
        self.send_response(status)
        for name, value in {**headers, "Content-Length": "2"}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_):
        """Says nothing."""


@pytest.mark.parametrize("rate", [None, 200.0])
def test_a_load_counts_what_is_answered(tmp_path, rate, monkeypatch):
    monkeypatch.setattr(Answering, "turn", 0)
    body = tmp_path / "body"
    body.write_bytes(b"x" * 1000)
    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        threading.Thread(target=server.serve_forever).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/infer"
        try:
            found = shoot(Shot(url, str(body), {"Accept": "a/b"}, 1.0, 2, rate))
        finally:
            server.shutdown()
    assert len(found.times) >= 1
    assert len(found.busy_times) >= found.without_retry_after
    assert set(found.others) <= {"503"}
    assert all(0 < seconds < found.seconds for seconds in found.times)


def test_a_server_that_is_gone_is_counted(tmp_path):
    (tmp_path / "body").touch()
    found = shoot(Shot("http://127.0.0.1:9/", str(tmp_path / "body"), {}, 1.0, 1))
    assert found.times == []
    assert found.others["0"] >= 1


def test_a_request_sent_before_it_is_due_took_no_negative_time(tmp_path):
    class AtOnce:
        async def ask(self, request):
            return 200, b""

    (tmp_path / "body").touch()
    load = _Load(Shot("http://127.0.0.1:9/", str(tmp_path / "body"), {}, 0.05, 1))
    asyncio.run(load._ask(AtOnce(), time.perf_counter() + 60))
    assert 0 <= load._times[0] < 60


def test_loads_in_turn_add_up():
    found = service._as_load([REPORT, REPORT])
    assert found["accepted"] == 4
    assert found["accepted_per_second"] == 1.0
    assert found["p50_ms"] == pytest.approx(2.0)
    assert (found["refused"], found["refused_without_retry_after"]) == (4, 2)
    assert (found["others"], found["unsent"]) == ({"500": 2}, 6)


def test_an_unknown_part_is_refused(tmp_path):
    with pytest.raises(SystemExit, match="no such part: medium"):
        service.main(["--parts", "medium", "--out", str(tmp_path / "out.json")])


@pytest.fixture
def same_servers(monkeypatch):
    """All parts ask the same two servers, for starting one takes seconds."""
    with hetune_target(TINY, 1) as own, peer_target(TINY, 1) as peer:
        monkeypatch.setattr(service, "hetune_target", lambda *_: nullcontext(own))
        monkeypatch.setattr(service, "peer_target", lambda *_: nullcontext(peer))
        yield


@whole
@pytest.mark.slow
@pytest.mark.usefixtures("same_servers")
def test_every_part_is_measured_once_and_kept(tmp_path, monkeypatch, capsys):
    for name in ("SMALL", "LARGE"):
        monkeypatch.setattr(service, name, TINY)
    monkeypatch.setattr(service, "CLIENTS", (1, 2))
    out = tmp_path / "service.json"
    arguments = ["--rounds", "2", "--block", "2", "--large-rounds", "2", "--seconds", "0.6"]
    arguments += ["--repeats", "1", "--threads", "1", "--out", str(out)]
    assert service.main(arguments) == 0
    first = out.read_text()
    cells = {cell["key"]: cell for cell in json.loads(first)["cells"]}
    assert set(cells) == set(service.PARTS)
    assert cells["small"]["candidates"]["peer, client"]["calls"] == 4
    large = cells["large"]["candidates"]
    ratio = large["hetune, client"]["p50_ms"] / large["in-process"]["p50_ms"]
    assert cells["large"]["overhead"] == pytest.approx(ratio - 1, abs=0.01)
    assert cells["clients"]["clients"]["2"]["hetune"]["accepted"] > 0
    assert cells["clients"]["clients"]["1"]["hetune"]["refused"] == 0
    assert cells["overload"]["at_twice_the_capacity"]["refused_without_retry_after"] == 0
    assert len(cells["overload"]["memory_mb"][0]) == 2
    shown = capsys.readouterr().out
    assert "overhead at p99" in shown
    assert "p99_ratio" in shown
    assert service.main(arguments) == 0
    assert out.read_text() == first
