"""Lines of the log: their form, the line of each request, and what is in none of them."""

import json
import logging
import sys
from types import SimpleNamespace

import httpx
import pytest

from hetune.service.http import observe
from hetune.service.http.logs import JsonFormatter, TextFormatter, request_id
from hetune.service.server.app import application

from ._logs import logged
from ._serving import serving

GRAPH = {"src": [0, 1], "dst": [1, 2], "etype": [0, 1], "num_nodes": 3}
ROWS = [[0.8130081, 77.125, 2.0, 3.0]] * 3
SECRETS = ("sesame", "wrong-key", "0.8130081", "77.125", "hidden-query", "hidden-id", "hidden-body")


def record(message, *args, error=None, **extra):
    found = logging.LogRecord("hetune.x", logging.WARNING, "", 0, message, args, error)
    vars(found).update(extra)
    return found


@pytest.fixture
def failure():
    try:
        raise ValueError("one\ntwo")
    except ValueError:
        return sys.exc_info()


def test_a_line_in_json(failure):
    line = JsonFormatter().format(record("a %s\nb", "ü", error=failure, status=200, other=1))
    assert "\n" not in line
    found = json.loads(line)
    assert found.pop("time").endswith("+00:00")
    assert found.pop("exception").startswith("Traceback")
    assert found == {
        "level": "warning",
        "logger": "hetune.x",
        "message": "a ü\nb",
        "status": 200,
    }


def test_a_line_in_text(failure):
    token = request_id.set("mine")
    try:
        line = TextFormatter().format(record("a %s", "b\n2026 ERROR forged\x1b[2J", error=failure))
    finally:
        request_id.reset(token)
    first, *rest = line.splitlines()
    assert first.endswith(r" WARNING [mine] hetune.x: a b\n2026 ERROR forged\x1b[2J")
    assert rest[0].startswith("Traceback")
    assert TextFormatter().format(record("plain")).endswith(" WARNING hetune.x: plain")


def test_each_request_is_a_line(service):
    app = application(service)
    with logged() as log, serving(app) as url, httpx.Client(base_url=url, timeout=60) as http:
        id = http.post("/v1/graphs", json=GRAPH).json()["id"]
        answer = http.get(f"/v1/graphs/{id}", params={"hidden-query": "1"})
        missing = http.get("/v1/graphs/hidden-id")
        lost = http.get("/hidden-id")
    created, found, failed, nowhere = log.requests
    assert all(line["request_id"] and line["seconds"] > 0 for line in log.requests)
    assert (created["method"], created["route"], created["status"]) == ("POST", "/v1/graphs", 201)
    assert found["route"] == "/v1/graphs/{id}"
    assert found["bytes"] == len(answer.content)
    assert found["level"] == "info"
    assert "failure" not in found
    assert (failed["status"], failed["failure"]) == (missing.status_code, "NotFoundError")
    assert (nowhere["route"], nowhere["failure"]) == ("none", f"http_{lost.status_code}")
    assert "hidden" not in log.text


def test_probes_that_go_well_are_for_debugging(service):
    with logged() as log, serving(application(service)) as url:
        httpx.get(f"{url}/v1/health/live", timeout=60)
        httpx.post(f"{url}/v1/health/live", timeout=60)
    assert [line["level"] for line in log.requests] == ["debug", "info"]


def test_refusals_are_told_together(service, monkeypatch):
    """However many there are: a busy service has better things to do."""
    now = 100.0
    monkeypatch.setattr(observe, "time", SimpleNamespace(monotonic=lambda: now))
    observer = observe.RequestObserver(service.metrics)
    with logged(logging.INFO) as log:
        for path, seconds in (
            *[("/refused", 0.0)] * 4,
            ("/refused", 0.9),
            ("/refused", 0.2),
            ("/served", 0.9),
            ("/served", 0.0),
            ("/refused", 0.2),
        ):
            now += seconds
            state = {"failure": "BusyError"} if path == "/refused" else {}
            observer.record({"method": "POST", "path": path, "state": state}, 429, 0, 0.0)
    told = [line["message"] for line in log.requests if line.get("failure") == "BusyError"]
    assert [int(message.split()[0]) for message in told] == [1, 5, 1]
    assert len(log.requests) == len(told) + 2


def test_methods_of_a_client_s_own_are_not_repeated(service):
    with logged() as log, serving(application(service)) as url:
        assert httpx.request("PROPFIND", f"{url}/v1/graphs", timeout=60).status_code == 405
        assert httpx.request("HIDDEN", f"{url}/v1/graphs", timeout=60).status_code == 400
    assert [line["method"] for line in log.requests] == ["other"]
    assert "PROPFIND" not in log.text
    assert "HIDDEN" not in log.text


def test_keys_bodies_and_features_are_in_no_line(service):
    select = service.selection.select
    with logged() as log:
        app = application(service, key="sesame")
        with serving(app) as url, httpx.Client(base_url=url, timeout=60) as http:
            right = {"Authorization": "Bearer sesame"}
            asked = {"graph": GRAPH, "x": ROWS}
            infer = "/v1/models/m/infer"
            statuses = [
                http.post(infer, json=asked, headers=right).status_code,
                http.post(infer, json=asked | {"hidden-body": 1}, headers=right).status_code,
                http.post(infer, json=asked | {"x": ROWS[:1]}, headers=right).status_code,
                http.post(infer, content=b"hidden-body", headers=right).status_code,
                http.get("/v1/models", headers={"Authorization": "Bearer wrong-key"}).status_code,
            ]

            def fail(*args, **options):
                raise RuntimeError("inside")

            object.__setattr__(service.selection, "select", fail)
            path = "/v1/models/m/select?hidden-query=1"
            statuses.append(http.post(path, json={"graph": GRAPH}, headers=right).status_code)
            object.__setattr__(service.selection, "select", select)
    assert statuses == [200, 400, 422, 415, 401, 500]
    assert [line["status"] for line in log.requests] == statuses
    assert [secret for secret in SECRETS if secret in log.text] == []
