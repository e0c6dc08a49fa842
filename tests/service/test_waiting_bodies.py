"""Who has not sent a body yet keeps nobody out, and is not waited for without end."""

import socket
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from http.client import HTTPResponse

import httpx
import pytest

from hetune.service.core.formats.message import MEDIA_TYPE
from hetune.service.http import receiving
from hetune.service.server.app import application

from ._serving import LIMITS, make_service, serving

GRAPH = {"src": [0, 1], "dst": [1, 2], "etype": [0, 1], "num_nodes": 3}
RUN = {"graph": GRAPH, "x": [[0.0, 1.0, 2.0, 3.0]] * 3}
INPUTS = [
    {"name": "x", "shape": [3, 4], "datatype": "FP32", "data": [0.5] * 12},
    {"name": "edge_index", "shape": [2, 2], "datatype": "INT64", "data": [0, 1, 1, 2]},
    {"name": "edge_type", "shape": [2], "datatype": "INT64", "data": [0, 1]},
]
JOB = {"campaign": "smoke"}
FEW = {"waiting": 2, "uploads": 2}


@pytest.fixture
def serve(tmp_path):
    """Serves with some limits; gives the URL."""

    @contextmanager
    def served(**limits):
        service = make_service(tmp_path / "data", limits=replace(LIMITS, **limits))
        with serving(application(service)) as url:
            yield url

    return served


def begin(stack, url, path, *, method="POST", length=1000, kind="application/json", sent=b""):
    """A connection that has sent a head, and some of the body."""
    parsed = httpx.URL(url)
    connection = stack.enter_context(socket.create_connection((parsed.host, parsed.port), 30))
    head = f"{method} {path} HTTP/1.1\r\nHost: a\r\nContent-Type: {kind}\r\n"
    connection.sendall(f"{head}Content-Length: {length}\r\n\r\n".encode() + sent)
    return connection


@pytest.mark.parametrize(
    ("path", "document", "status"),
    [
        ("/v1/models/m/infer", RUN, 200),
        ("/v1/models/m/select", {"graph": GRAPH}, 200),
        ("/v2/models/m/infer", {"inputs": INPUTS}, 200),
        ("/v2/repository/index", {}, 200),
        ("/v2/repository/models/m/load", {}, 200),
        ("/v1/graphs", GRAPH, 201),
        ("/v1/profiling/jobs", JOB, 201),
    ],
)
def test_heads_without_bodies_take_no_places(serve, path, document, status):
    with serve(**FEW) as url, ExitStack() as stack:
        for _ in range(4):
            begin(stack, url, path)
        assert httpx.get(f"{url}/healthz", timeout=60).status_code == 200
        found = httpx.post(f"{url}{path}", json=document, timeout=60)
        assert found.status_code == status, found.text


def answer_of(connection):
    found = HTTPResponse(connection)
    found.begin()
    return found.status, found.read()


def test_first_bytes_have_to_come_soon_and_the_others_fast_enough(serve, monkeypatch):
    monkeypatch.setattr(receiving, "START_SECONDS", 0.2)
    with serve() as url, ExitStack() as stack:
        waiting = [begin(stack, url, "/v1/graphs", sent=sent) for sent in (b"", b"{" * 10)]
        for connection, count in zip(waiting, (0, 10), strict=True):
            status, text = answer_of(connection)
            assert status == 408
            assert f"{count} bytes of the body came in 0.2".encode() in text


def test_what_comes_fast_enough_is_waited_for(serve, monkeypatch):
    monkeypatch.setattr(receiving, "START_SECONDS", 0.2)
    monkeypatch.setattr(receiving, "LEAST_RATE", 1)
    with serve() as url, ExitStack() as stack:
        connection = begin(stack, url, "/v1/graphs", length=61, sent=b" " * 60)
        connection.settimeout(0.4)
        with pytest.raises(TimeoutError):
            connection.recv(1)
        connection.settimeout(30)
        connection.sendall(b"{")
        assert answer_of(connection)[0] == 400


def test_bodies_that_are_received_hold_no_more_than_they_may(serve):
    path = "/v1/models/m/infer"
    with serve(waiting_bytes=200_000) as url, ExitStack() as stack:
        first = begin(stack, url, path, length=190_000, kind=MEDIA_TYPE, sent=bytes(150_000))
        _wait_until_held(url, path)
        second = begin(stack, url, path, length=190_000, kind=MEDIA_TYPE)
        status, text = answer_of(second)
        assert status == 429
        assert b"bodies of requests hold " in text
        assert httpx.post(f"{url}{path}", json=RUN, timeout=60).status_code == 200
        first.sendall(bytes(40_000))
        assert answer_of(first)[0] == 400


def _wait_until_held(url, path):
    """Until so much of another body has come that no large one is let in."""
    kind = {"Content-Type": MEDIA_TYPE}
    for _ in range(500):
        with httpx.Client(timeout=60) as client:
            found = client.post(f"{url}{path}", content=bytes(100_000), headers=kind)
        if found.status_code == 429:
            return
    raise AssertionError


def test_uploads_hold_no_more_than_they_may(serve):
    with serve(uploads=1, body_bytes=50_000) as url, ExitStack() as stack:
        first = begin(stack, url, "/v1/graphs", length=49_000, kind=MEDIA_TYPE, sent=bytes(40_000))
        for _ in range(500):
            found = httpx.post(
                f"{url}/v1/graphs", content=bytes(20_000), headers={"Content-Type": MEDIA_TYPE}
            )
            if found.status_code == 429:
                break
        assert b"uploads hold 40000 bytes" in found.content
        first.sendall(bytes(9_000))
        assert answer_of(first)[0] == 400
        assert httpx.post(f"{url}/v1/graphs", json=GRAPH).status_code == 201
