"""Bytes that are no HTTP, or are sent slowly, or say two things at once."""

import asyncio
import re
import socket
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import replace
from types import SimpleNamespace

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from uvicorn.server import ServerState

from hetune.service.server import connections
from hetune.service.server.app import application
from hetune.service.server.server import Server

from ._serving import LIMITS, make_service, serving

GET = b"GET /v1/health/live HTTP/1.1\r\nHost: 127.0.0.1\r\n"
POST = b"POST /v1/graphs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
SMUGGLED = b"GET /v1/models HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A service, and where it listens."""
    service = make_service(tmp_path_factory.mktemp("data"))
    app = application(service, hosts={"127.0.0.1"})
    with serving(app) as url:
        parsed = httpx.URL(url)
        yield SimpleNamespace(url=url, address=(parsed.host, parsed.port), service=service)


@pytest.fixture
def impatient(monkeypatch):
    """A service that waits for heads for a moment only."""
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.3)


def plain(answer):
    """An application that is a function of a request, `receive` and `send`."""

    async def app(scope, receive, send):
        if scope["type"] == "http":
            await answer(Request(scope, receive), send)
            return
        for what in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{what}.complete"})

    return app


def answers(address, sent):
    """Statuses of all answers to some bytes, after which the service ends the connection."""
    with socket.create_connection(address, 30) as connection:
        received = received_for(connection, sent)
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", received)]


def received_for(connection, sent):
    """What comes for some bytes until the service ends the connection."""
    received = b""
    try:
        connection.sendall(sent)
        while piece := connection.recv(1 << 16):
            received += piece
    except (ConnectionResetError, BrokenPipeError):
        pass  # it has ended while we were still sending
    return received


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"nonsense\r\n\r\n",
        b"GET /v1/models\r\n\r\n",
        b"GET /v1/mod els HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET /v1/models\xff HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET /v1/models HTTP/1.1\r\n\r\n",
        b"MADE-UP /v1/models HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"CONNECT 127.0.0.1:22 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        GET + b"Host: evil.example\r\n\r\n",
        GET + b"Name : value\r\n\r\n",
        GET + b"Name: a\x00b\r\n\r\n",
        GET + b"Na me: value\r\n\r\n",
        GET + b"Name: " + b"a" * 1_000_000 + b"\r\n\r\n",
        GET + b"Name: a\r\n" * 200_000 + b"\r\n",
        b"GET /" + b"a" * 1_000_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    ],
    ids=range(16),
)
def test_heads_that_are_none(served, sent):
    assert answers(served.address, sent) in ([400], [])
    assert httpx.get(f"{served.url}/v1/health/live", timeout=60).status_code == 200


def test_a_head_that_is_there_at_once_is_no_longer_than_others():
    async def welcome(request, send):
        await PlainTextResponse("")(request.scope, request.receive, send)

    async def answered():
        config = Server(plain(welcome)).config
        config.load()
        given = {"config": config, "server_state": ServerState(), "app_state": {}}
        ours, theirs = socket.socketpair()
        with theirs:
            theirs.sendall(GET + b"Name: " + b"a" * 150_000 + b"\r\nConnection: close\r\n\r\n")
            loop = asyncio.get_running_loop()
            await loop.connect_accepted_socket(lambda: config.http_protocol_class(**given), ours)
            return await asyncio.to_thread(theirs.recv, 1 << 16)

    assert b" 400 " in asyncio.run(answered())


@pytest.mark.parametrize(
    "framing",
    [
        b"Content-Length: 2\r\nContent-Length: 44\r\n\r\n{}",
        b"Content-Length: 2, 44\r\n\r\n{}",
        b"Content-Length: -2\r\n\r\n{}",
        b"Content-Length: +2\r\n\r\n{}",
        b"Content-Length: 0x2\r\n\r\n{}",
        b"Content-Length: 2\xb2\r\n\r\n{}",
        b"Content-Length:\r\n\r\n",
        b"Transfer-Encoding: xchunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        b"Transfer-Encoding: identity\r\n\r\n{}",
        b"Transfer-Encoding: chunked, identity\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n-2\r\n{}\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n0x2\r\n{}\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n" + b"f" * 30 + b"\r\n{}\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}{}\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n2;" + b"a" * 1_000_000 + b"\r\n{}\r\n0\r\n\r\n",
    ],
    ids=range(18),
)
def test_no_second_request_is_smuggled_behind_a_body(served, framing):
    """What has two meanings has none: it is refused, and what follows it is not a request."""
    assert answers(served.address, POST + framing + SMUGGLED) in ([400], [])


def test_one_body_one_answer(served):
    """The same with one meaning: both requests are answered."""
    assert answers(served.address, POST + b"Content-Length: 2\r\n\r\n{}" + SMUGGLED) == [400, 200]


def test_many_requests_in_one_piece_are_answered_in_turn(served):
    short = POST + b"Content-Length: 2\r\n\r\n{}"
    long = POST + b"Content-Length: 200000\r\n\r\n" + b"[" * 200_000
    sent = short * 20 + (long + short) * 5 + SMUGGLED
    assert answers(served.address, sent) == [400] * 20 + [413, 400] * 5 + [200]


@pytest.mark.parametrize(("pieces", "kind"), [(1, bytes), (1000, bytearray)])
def test_a_body_in_crumbs_is_not_copied_for_each(pieces, kind):
    """One piece is handed on as it is; what is added to bytes would copy them all again."""
    found = []

    async def look(request, send):
        await asyncio.sleep(0.2)  # all of it has come by now
        found.append(type(request.receive.__self__.body))
        assert await request.body() == b" " * pieces
        await PlainTextResponse("")(request.scope, request.receive, send)

    crumbs = b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\n \r\n" * pieces + b"0\r\n\r\n"
    with serving(plain(look)) as url:
        parsed = httpx.URL(url)
        sent = POST + b"Connection: close\r\n" + crumbs
        assert answers((parsed.host, parsed.port), sent) == [200]
    assert found == [kind]


@pytest.mark.parametrize("trailer", [b"Host: evil.example", b"a: b"])
def test_trailers_change_nothing(served, trailer):
    chunked = b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n" + trailer + b"\r\n\r\n"
    assert answers(served.address, POST + chunked + SMUGGLED) == [400, 200]


def test_trailers_without_end(served):
    chunked = b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"
    for endless in (b"a: b\r\n" * 200_000, b"a" * 1_000_000, b"a: " + b"b" * 1_000_000):
        assert answers(served.address, POST + chunked + endless) in ([400], [400, 400], [])


@pytest.mark.parametrize(
    ("header", "status"),
    [
        (b"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n", 200),
        (b"Upgrade: h2c\r\n", 200),
        (b"X-Forwarded-Host: evil.example\r\nForwarded: host=evil.example\r\n", 200),
        (b"X-HTTP-Method-Override: DELETE\r\n", 200),
        (b"X-Request-ID: \xff\xfe\r\n", 200),
        (b"Authorization: \xff\xfe\r\n", 200),
        (b"Accept: " + b"a/b," * 3000 + b"\r\n", 200),
        (b"Origin: http://evil.example\r\n", 403),
        (b"Range: bytes=0-,0-,0-,0-,0-\r\n", 200),
    ],
    ids=range(9),
)
def test_headers_that_change_nothing(served, header, status):
    sent = SMUGGLED[:-2] + header + b"\r\n"
    assert answers(served.address, sent) == [status]


@pytest.mark.parametrize(
    "drops",
    [
        [],
        [b"G"],
        [GET],
        [GET, *([b"X: y\r\n"] * 1000)],
        [POST + b"Content-Length: 1000\r\n\r\n{}"],
        [b"POST /v1/nothing HTTP/1.1\r\nHost: a\r\nContent-Length: 9000\r\n\r\n", *([b"x"] * 1000)],
    ],
    ids=["nothing", "a byte", "half a head", "a head by drops", "half a body", "after an answer"],
)
def test_who_is_slow_is_not_waited_for(impatient, tmp_path, drops):
    service = make_service(tmp_path, limits=replace(LIMITS, body_seconds=0.3))
    with serving(application(service)) as url:
        parsed = httpx.URL(url)
        with socket.create_connection((parsed.host, parsed.port), 30) as connection:
            ended = threading.Event()

            def receive():
                with suppress(ConnectionResetError):  # it has ended while more was on its way
                    while connection.recv(1 << 16):
                        pass
                ended.set()

            receiver = threading.Thread(target=receive)
            receiver.start()
            for drop in drops:
                try:
                    connection.sendall(drop)
                except OSError:
                    break
                if ended.wait(0.05):
                    break
            assert ended.wait(60)
            receiver.join()


def test_who_waits_for_a_long_answer_is_not_slow(monkeypatch, tmp_path):
    monkeypatch.setattr(connections, "HEAD_SECONDS", 1.0)
    service = make_service(tmp_path)
    names = service.models.names

    def slow():
        monkeypatch.setattr(connections, "HEAD_SECONDS", 60.0)  # for the next head
        time.sleep(2)
        return names()

    service.models.names = slow
    with serving(application(service)) as url, httpx.Client(base_url=url, timeout=60) as http:
        assert http.get("/v1/models").status_code == 200
        assert http.get("/v1/health/live").status_code == 200


def test_answers_that_nobody_reads_end(monkeypatch):
    monkeypatch.setattr(connections, "READ_SECONDS", 0.3)
    over = threading.Event()

    async def answer(_, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(64):  # more than sockets hold
            await send({"type": "http.response.body", "body": bytes(1 << 20), "more_body": True})
        over.set()

    with serving(plain(answer)) as url:
        parsed = httpx.URL(url)
        with socket.create_connection((parsed.host, parsed.port), 30) as connection:
            connection.sendall(GET + b"\r\n")
            assert over.wait(30)
            received = 0
            with suppress(ConnectionResetError):
                while piece := connection.recv(1 << 20):
                    received += len(piece)
            assert received < 64 << 20


@pytest.fixture
def lasting():
    """Serves answers, begun or not, that last until their client has left; tells when it has."""
    left = threading.Event()

    @contextmanager
    def served(begins):
        async def answer(request, send):
            if begins:
                await send({"type": "http.response.start", "status": 200, "headers": []})
            while not await request.is_disconnected():
                await asyncio.sleep(0.01)
            left.set()

        with serving(plain(answer)) as url:
            parsed = httpx.URL(url)
            yield (parsed.host, parsed.port), left

    return served


@pytest.mark.parametrize("begins", [False, True])
def test_no_queue_without_end_waits_for_an_answer(lasting, begins):
    with lasting(begins) as (address, left):
        with socket.create_connection(address, 30) as connection:
            connection.sendall(GET + b"\r\n")
            if begins:
                assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200 ")
            received = received_for(connection, (GET + b"\r\n") * 1000)
        assert left.wait(30)
    if received:  # what is on its way as a connection ends may be lost
        assert not begins
        assert received.startswith(b"HTTP/1.1 400 ")


def test_an_answer_ends_whose_client_leaves_with_requests_behind_it(lasting):
    with lasting(begins=True) as (address, left):
        with socket.create_connection(address, 30) as connection:
            connection.sendall((GET + b"\r\n") * 2)
            assert connection.recv(1 << 16)
        assert left.wait(30)
