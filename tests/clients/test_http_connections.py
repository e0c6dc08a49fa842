"""Both clients' connections, against servers that answer byte by byte what a test says."""

import os
import socket
import ssl
import struct
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
import torch
from tests.clients._both import KINDS, connected
from tests.clients._sockets import SECONDS, answering, playing

from hetune.clients import Client
from hetune.clients.http.call import ServiceCall
from hetune.service.core.formats.message import Pieces
from hetune.service.core.inference.answers import Answer, RunReport
from hetune.variants.errors import TooLargeError, UnreachableError

OK = b"HTTP/1.1 200 OK\r\n"
MODELS = b'{"models": []}'
ANSWER = OK + b"Content-Length: %d\r\n\r\n%b" % (len(MODELS), MODELS)
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


def listing(played, peer):
    """Answers every request by a list without models."""
    while played.heard(peer) is not None:
        peer.sendall(ANSWER)


ANSWERS = {
    "of a length": ANSWER,
    "in chunks": CHUNKED + b"e;a=b\r\n%b\r\n0\r\nTrailer: t\r\n\r\n" % MODELS,
    "after going on": b"HTTP/1.1 100 Continue\r\n\r\n" + ANSWER,
}
LAST_ANSWERS = {
    "until the end": OK + b"\r\n" + MODELS,
    "the last": ANSWER.replace(OK, OK + b"Connection: close\r\n"),
    "of the old protocol": ANSWER.replace(b"1.1", b"1.0"),
}
BROKEN = {
    "nothing": b"",
    "half a head": OK + b"Content-Le",
    "no HTTP": b"SSH-2.0-OpenSSH\r\n",
    "a long line": OK + b"X: " + b"x" * (1 << 17),
    "a short body": OK + b"Content-Length: 600\r\n\r\n" + MODELS,
    "a negative length": OK + b"Content-Length: -1\r\n\r\n" + MODELS,
    "two lengths": ANSWER.replace(OK, OK + b"Content-Length: 4\r\n"),
    "no last chunk": CHUNKED + b"e\r\n%b\r\n" % MODELS,
}


@pytest.mark.parametrize(
    ("answer", "connections"),
    [*((answer, 1) for answer in ANSWERS.values()), *((a, 2) for a in LAST_ANSWERS.values())],
    ids=[*ANSWERS, *LAST_ANSWERS],
)
def test_connections_are_kept_unless_an_answer_ends_them(kind, answer, connections):
    with (
        playing(answering(*[answer] * (3 - connections))) as server,
        connected(kind, server.url, timeout=SECONDS) as client,
    ):
        assert [client.models() for _ in range(2)] == [{}, {}]
        assert server.connections == connections


@pytest.mark.parametrize("answer", BROKEN.values(), ids=BROKEN)
def test_answers_that_are_none(kind, answer):
    with (
        playing(answering(answer)) as server,
        connected(kind, server.url, timeout=SECONDS, retries=0) as client,
    ):
        for _ in range(2):
            with pytest.raises(UnreachableError, match="no answer from"):
                client.models()
        assert server.connections == 2


# Bodies.


def test_tensors_are_sent_from_where_they_lie():
    x, told = torch.randn(700_001, 3), []
    body = Pieces("{}", {"x": x, "y": torch.arange(5), "z": torch.zeros(0, 2)})
    call = ServiceCall("POST", "/", lambda r: r, body, progress=lambda *given: told.append(given))
    views = [piece for piece in call.pieces() if isinstance(piece, memoryview)]
    assert len({id(view.obj) for view in views}) == 1
    assert sum(map(len, views)) == x.nbytes
    assert len(told) > 8
    assert told == sorted(told)
    assert told[-1] == (len(body), len(body))


@pytest.mark.parametrize("rows", [0, 1, 70_000, 700_001])
def test_tensors_go_and_come_back_bit_by_bit(kind, rows):
    x, y = torch.randn(rows, 3), torch.randn(rows, 5)
    report = RunReport(model="m", version=1, graph="0" * 32, layers=())
    content = b"".join(Pieces(report.model_dump_json(), {"out/0": y}))
    bodies = []

    def talk(played, peer):
        while (body := played.heard(peer)) is not None:
            bodies.append(body)
            peer.sendall(OK + b"Content-Length: %d\r\n\r\n" % len(content))
            peer.sendall(content)

    with playing(talk) as server, connected(kind, server.url, timeout=SECONDS) as client:
        for _ in range(2):
            answer: Answer = client.infer("m", "0" * 32, x)
            assert torch.equal(answer.out, y)
            answer.out.zero_()  # it is the caller's own
    assert bodies[0] == bodies[1]
    assert bodies[0].endswith(x.numpy().tobytes())


def test_an_answer_is_heard_though_the_body_is_refused_unread():
    problem = b'{"type": "urn:hetune:error:TooLargeError", "detail": "large"}'

    def talk(played, peer):
        peer.recv(10)
        # In one piece: closing an unread connection drops what waits for the first piece's receipt.
        head = b"HTTP/1.1 413 Large\r\nContent-Length: %d\r\n\r\n" % len(problem)
        peer.sendall(head + problem)

    with playing(talk) as server, Client(server.url, timeout=SECONDS) as client:
        for _ in range(2):
            with pytest.raises(TooLargeError, match="large"):
                client.infer("m", "0" * 32, torch.zeros(16_000_000, 1))
        assert server.connections == 2


# What fails.


def test_a_connection_that_is_reset(kind):
    def reset(_, peer):
        peer.recv(1 << 16)
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    with (
        playing(reset) as server,
        connected(kind, server.url, timeout=SECONDS, retries=0) as client,
        pytest.raises(UnreachableError, match=r"no answer from .*is `hetune serve` running"),
    ):
        client.models()


@pytest.mark.parametrize(
    ("scheme", "rows"), [("https", 0), ("http", 16_000_000), ("http", 0)], ids=range(3)
)
def test_times_are_up(kind, scheme, rows):
    """While connecting, while sending, and while waiting for an answer."""
    over = threading.Event()
    with playing(lambda *_: over.wait(SECONDS)) as server:
        url = server.url.replace("http", scheme)
        with (
            connected(kind, url, timeout=0.1) as client,
            pytest.raises(UnreachableError, match="no answer from"),
        ):
            client.infer("m", "0" * 32, torch.zeros(rows, 1))
        over.set()


# Connections.


def test_a_server_that_hangs_up_while_nobody_asks(kind):
    hung_up = threading.Event()

    def talk(played, peer):
        answering(ANSWER)(played, peer)
        peer.shutdown(socket.SHUT_RDWR)
        hung_up.set()

    with (
        playing(talk) as server,
        connected(kind, server.url, timeout=SECONDS, retries=0) as client,
    ):
        for number in (1, 2, 3):
            assert client.models() == {}
            assert hung_up.wait(SECONDS)
            hung_up.clear()
            assert server.connections == number


def test_a_forked_process_has_connections_of_its_own(monkeypatch):
    with (
        playing(listing) as server,
        Client(server.url, timeout=SECONDS) as client,
        client._sender._transport,  # the parent's, which the child leaves as they are
    ):
        for process, connections in ((1, 1), (1, 1), (2, 2), (2, 2)):
            if process != 1:
                monkeypatch.setattr(os, "getpid", lambda: 2)
            assert client.models() == {}
            assert server.connections == connections


def test_what_nobody_asked_for_is_no_answer(kind):
    heard, sent = threading.Event(), threading.Event()

    def talk(played, peer):
        answering(ANSWER)(played, peer)
        assert heard.wait(SECONDS)
        peer.sendall(ANSWER.replace(b"200", b"500"))
        sent.set()
        played.heard(peer)

    with playing(talk) as server, connected(kind, server.url, timeout=SECONDS) as client:
        for _ in range(2):
            assert client.models() == {}
            heard.set()
            assert sent.wait(SECONDS)
            heard.clear()
            sent.clear()


def test_many_threads():
    with (
        playing(listing) as server,
        Client(server.url, timeout=SECONDS) as client,
        ThreadPoolExecutor(8) as threads,
    ):
        assert list(threads.map(lambda _: client.models(), range(200))) == [{}] * 200
        assert server.connections <= 8


def test_proxies_are_not_used(kind, monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with playing(listing) as server, connected(kind, server.url, timeout=SECONDS) as client:
        assert client.models() == {}


def test_a_client_that_has_been_closed():
    with playing(listing) as server:
        client = Client(server.url)
        client.close()
        with pytest.raises(RuntimeError, match="closed"):
            client.models()


# HTTPS.


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A key and its certificate, which vouches for itself, in one file."""
    x509 = pytest.importorskip("cryptography.x509", reason="needs cryptography to make one")
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + made.public_bytes(serialization.Encoding.PEM)
    )
    return path


def over_tls(certificate):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    def talk(played, peer):
        with context.wrap_socket(peer, server_side=True) as secure:
            listing(played, secure)

    return talk


def test_a_certificate_that_the_environment_names_is_trusted(certificate, monkeypatch, kind):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with playing(over_tls(certificate)) as server:
        url = server.url.replace("http://127.0.0.1", "https://localhost")
        with connected(kind, url, timeout=SECONDS, retries=0) as client:
            assert client.models() == {}
        other = server.url.replace("http", "https")
        with (
            connected(kind, other, timeout=SECONDS, retries=0) as client,
            pytest.raises(UnreachableError, match="certificate"),
        ):
            client.models()
    monkeypatch.delenv("SSL_CERT_FILE")
    with playing(over_tls(certificate)) as server:
        url = server.url.replace("http://127.0.0.1", "https://localhost")
        with (
            connected(kind, url, timeout=SECONDS, retries=0) as client,
            pytest.raises(UnreachableError, match="name the file of your CA in SSL_CERT_FILE"),
        ):
            client.models()
