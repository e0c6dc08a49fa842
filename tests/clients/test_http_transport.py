"""The client's transport, against servers that answer byte by byte what a test says."""

import gzip
import os
import socket
import ssl
import struct
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import httpx
import numpy as np
import pytest
import torch
from tests.clients._both import KINDS, connected
from tests.clients._sockets import SECONDS, answering, echo, playing, refusing

from hetune.clients.http import channel, connection
from hetune.clients.http.call import Call
from hetune.clients.http.received import Received, body_of
from hetune.clients.http.transport import Transport
from hetune.service.core.formats.message import Pieces
from hetune.variants.errors import UnreachableError

OK = b"HTTP/1.1 200 OK\r\n"
HELLO = OK + b"Content-Length: 5\r\n\r\nhello"


@pytest.fixture(autouse=True)
def _nobody_is_slow(monkeypatch):
    """Connections would not be used again that rest for long, as they may on a busy machine."""
    monkeypatch.setattr(connection, "monotonic", lambda: 0.0)


@pytest.fixture
def transport():
    with Transport() as found:
        yield found


@pytest.fixture
def http(transport):
    """httpx's client over the transport."""
    with httpx.Client(transport=transport, timeout=SECONDS) as found:
        yield found


ANSWERS = {
    "of a length": (HELLO, b"hello"),
    "empty": (OK + b"Content-Length: 0\r\n\r\n", b""),
    "without content": (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
    "in chunks": (
        OK
        + b"Transfer-Encoding: chunked\r\n\r\n2;a=b\r\nhe\r\n3\r\nllo\r\n0\r\nTrailer: t\r\n\r\n",
        b"hello",
    ),
    "after going on": (b"HTTP/1.1 100 Continue\r\n\r\n" + HELLO, b"hello"),
    "compressed": (
        OK
        + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(gzip.compress(b"hello"))
        + gzip.compress(b"hello"),
        b"hello",
    ),
}
LAST_ANSWERS = {
    "until the end": (OK + b"\r\nhello", b"hello"),
    "the last": (OK + b"Connection: close\r\nContent-Length: 5\r\n\r\nhello", b"hello"),
    "of the old protocol": (b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", b"hello"),
}


@pytest.mark.parametrize(("answer", "content"), ANSWERS.values(), ids=ANSWERS)
def test_answers_that_leave_the_connection_to_the_next_request(http, answer, content):
    with playing(answering(answer, answer)) as server:
        assert [http.get(server.url).content for _ in range(2)] == [content] * 2
        assert server.connections == 1


@pytest.mark.parametrize(("answer", "content"), LAST_ANSWERS.values(), ids=LAST_ANSWERS)
def test_answers_that_end_it(http, answer, content):
    with playing(answering(answer)) as server:
        assert [http.get(server.url).content for _ in range(2)] == [content] * 2
        assert server.connections == 2


def test_heads_are_as_they_were_sent(http):
    fields = b"X-Name: k\xe9\r\nx-two: 1\r\nX-Two: 2\r\nContent-Length: 0\r\n\r\n"
    answer = b"HTTP/1.1 404 Nothing\r\n" + fields
    with playing(answering(answer)) as server:
        found = http.put(f"{server.url}/a%2Fb?c=d", headers={"X-Own": "own"}, content=b"x")
    assert found.status_code == 404
    assert (found.headers["x-name"], found.headers["X-Two"]) == ("ké", "1, 2")
    (head,) = server.heads
    first, *lines = head.split(b"\r\n")
    assert first == b"PUT /a%2Fb?c=d HTTP/1.1"
    assert f"Host: {server.url.removeprefix('http://')}".encode() in lines
    assert b"X-Own: own" in lines
    assert [line.lower() for line in lines].count(b"content-length: 1") == 1


@pytest.mark.parametrize("headers", [{"X": "a\r\nY: b"}, {"X": "a\nb"}, {"X Y:": "a"}])
def test_heads_that_would_be_read_as_others_are_not_sent(http, headers):
    with playing(answering(HELLO)) as server, pytest.raises(httpx.LocalProtocolError):
        http.get(server.url, headers=headers)
    assert server.heads == []


def test_a_short_body_comes_with_its_head(http):
    """So that a service is woken once."""
    found = []

    def talk(_, peer):
        found.append(peer.recv(1 << 16))
        peer.sendall(HELLO)

    with playing(talk) as server:
        http.post(server.url, content=b"short")
    assert found[0].endswith(b"\r\n\r\nshort")


# Bodies.


@pytest.mark.parametrize("size", [0, 1, channel._SHORT, channel._SHORT + 1, 5_000_001])
def test_bodies_come_back_as_they_went(transport, size):
    content = np.random.default_rng(0).bytes(size)
    with playing(echo) as server:
        request = httpx.Request("POST", server.url, content=content)
        found = transport.handle_request(request)
        assert isinstance(found, Received)
        assert not body_of(found).readonly
        assert body_of(found) == content == found.content


def test_tensors_are_sent_from_where_they_lie_and_received_where_they_stay(transport):
    tensors = {"x": torch.randn(700_001, 3), "y": torch.arange(5), "z": torch.zeros(0, 2)}
    body, told = Pieces("{}", tensors), []
    call = Call("POST", "/", lambda r: r, body, progress=lambda *given: told.append(given))
    views = [piece for piece in call.pieces() if isinstance(piece, memoryview)]
    assert len({id(view.obj) for view in views}) == 1
    assert sum(map(len, views)) == tensors["x"].nbytes
    told.clear()
    with playing(echo) as server:
        headers = {"Host": "here", "Content-Length": str(len(body))}
        request = httpx.Request("POST", server.url, headers=headers, stream=call.stream)
        assert body_of(transport.handle_request(request)) == b"".join(body)
    assert len(told) > 8
    assert told == sorted(told)
    assert told[-1] == (len(body), len(body))


def test_an_answer_is_heard_though_the_body_is_refused_unread(http):
    def talk(played, peer):
        peer.recv(10)
        peer.sendall(b"HTTP/1.1 413 Large\r\nContent-Length: 5\r\n\r\nlarge")

    with playing(talk) as server:
        for _ in range(2):
            found = http.post(server.url, content=bytes(64_000_000))
            assert (found.status_code, found.content) == (413, b"large")
        assert server.connections == 2


def test_what_makes_a_body_may_fail(http):
    def body():
        yield bytes(100_000)
        raise BrokenPipeError("the caller's own")

    with playing(echo) as server, pytest.raises(BrokenPipeError, match="the caller's own"):
        http.post(server.url, content=body(), headers={"Content-Length": "200000"})


# What fails.


def reset(_, peer):
    peer.recv(1 << 16)
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
BROKEN = {
    "nothing": b"",
    "half a head": OK + b"Content-Le",
    "no HTTP": b"SSH-2.0-OpenSSH\r\n",
    "a status that is none": b"HTTP/1.1 abc OK\r\n\r\n",
    "another protocol": b"HTTP/2 200\r\n\r\n",
    "a long line": OK + b"X: " + b"x" * (1 << 17),
    "many lines": OK + b"X: x\r\n" * 20_000 + b"\r\n",
    "a short body": OK + b"Content-Length: 6\r\n\r\nhello",
    "no body": OK + b"Content-Length: 6\r\n\r\n",
    "a length that is none": OK + b"Content-Length: five\r\n\r\nhello",
    "a negative length": OK + b"Content-Length: -1\r\n\r\nhello",
    "a length that no counter holds": OK + b"Content-Length: 1%s\r\n\r\n" % (b"0" * 30),
    "a length and chunks": CHUNKED.replace(b"\r\n\r\n", b"\r\nContent-Length: 5\r\n\r\nhello"),
    "another coding": CHUNKED.replace(b"chunked", b"gzip, chunked") + b"0\r\n\r\n",
    "a header without name": OK + b": x\r\nContent-Length: 5\r\n\r\nhello",
    "a header without colon": OK + b"Content-Length 5\r\n\r\nhello",
    "a header with a line's end in it": OK + b"X: a\rContent-Length: 5\r\n\r\nhello",
    "always about to come": b"HTTP/1.1 102 Processing\r\n\r\n" * 1000,
    "two lengths": OK + b"Content-Length: 5\r\nContent-Length: 4\r\n\r\nhello",
    "half a chunk": CHUNKED + b"5\r\nhel",
    "no chunk": CHUNKED,
    "a chunk without length": CHUNKED + b"hello\r\n",
    "a chunk of a length that is none": CHUNKED + b"-5\r\nhello\r\n0\r\n\r\n",
    "a chunk that is longer than it says": CHUNKED + b"4\r\nhello\r\n0\r\n\r\n",
    "no last chunk": CHUNKED + b"5\r\nhello\r\n",
    "half of what is compressed": OK
    + b"Content-Encoding: gzip\r\nContent-Length: 40\r\n\r\n"
    + gzip.compress(b"hello"),
}


@pytest.mark.parametrize("answer", BROKEN.values(), ids=BROKEN)
def test_answers_that_are_none(http, answer):
    with playing(answering(answer)) as server:
        for _ in range(2):
            with pytest.raises(httpx.RemoteProtocolError) as caught:
                http.get(server.url)
            assert str(caught.value)
        assert server.connections == 2


def test_more_than_memory_holds(http):
    with (
        playing(answering(OK + b"Content-Length: %d\r\n\r\n" % 10**17)) as server,
        pytest.raises(httpx.ReadError, match=f"no memory for {10**17} bytes"),
    ):
        http.get(server.url)


def test_a_connection_that_is_reset(http):
    with playing(reset) as server, pytest.raises(httpx.ReadError, match="reset"):
        http.get(server.url)


def test_nobody_listens(http):
    with refusing() as url, pytest.raises(httpx.ConnectError, match="refused"):
        http.get(url)


def test_a_name_that_nobody_has(http):
    with pytest.raises(httpx.ConnectError):
        http.get("http://no.such.host.invalid")


def test_a_protocol_that_is_not_spoken(transport):
    with pytest.raises(httpx.UnsupportedProtocol):
        transport.handle_request(httpx.Request("GET", "ftp://127.0.0.1"))


@pytest.mark.parametrize(
    ("scheme", "size", "which"),
    [
        ("https", 0, "connect"),
        ("http", 64_000_000, "write"),
        ("http", 0, "read"),
    ],
)
def test_times_are_up(http, scheme, size, which):
    over = threading.Event()
    errors = {"connect": httpx.ConnectTimeout, "write": httpx.WriteTimeout}
    with playing(lambda *_: over.wait(SECONDS)) as server:
        url, times = server.url.replace("http", scheme), {which: 0.05}
        with pytest.raises(errors.get(which, httpx.ReadTimeout), match="timed out"):
            http.post(url, content=bytes(size), timeout=httpx.Timeout(SECONDS, **times))
        over.set()


# Connections.


def test_a_server_that_hangs_up_while_nobody_asks(http):
    hung_up = threading.Event()

    def talk(played, peer):
        answering(HELLO)(played, peer)
        peer.shutdown(socket.SHUT_RDWR)
        hung_up.set()

    with playing(talk) as server:
        for number in (1, 2, 3):
            assert http.get(server.url).content == b"hello"
            assert hung_up.wait(SECONDS)
            hung_up.clear()
            assert server.connections == number


def test_a_forked_process_has_connections_of_its_own(http, monkeypatch):
    with playing(echo) as server:
        for process, connections in ((1, 1), (1, 1), (2, 2), (1, 2)):
            monkeypatch.setattr(os, "getpid", lambda process=process: process)
            assert http.post(server.url, content=b"x").content == b"x"
            assert server.connections == connections


def test_what_nobody_asked_for_is_no_answer(http):
    sent = threading.Event()

    def talk(played, peer):
        answering(HELLO)(played, peer)
        peer.sendall(HELLO.replace(b"hello", b"wrong"))
        sent.set()
        played.heard(peer)

    with playing(talk) as server:
        for _ in range(2):
            assert http.get(server.url).content == b"hello"
            assert sent.wait(SECONDS)
            sent.clear()


def test_connections_are_not_kept_for_long(http, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(connection, "monotonic", lambda: now[0])
    with playing(echo) as server:
        for seconds, connections in ((0, 1), (4, 1), (4, 1), (6, 2)):
            now[0] += seconds
            http.get(server.url)
            assert server.connections == connections


def test_many_threads(http):
    def ask(number):
        content = bytes([number]) * (1 + number * 1000)
        return all(http.post(server.url, content=content).content == content for _ in range(5))

    with playing(echo) as server:
        with ThreadPoolExecutor(8) as threads:
            assert all(threads.map(ask, range(40)))
        assert server.connections <= 8
        http.close()


def test_a_client_that_has_been_closed(transport):
    with playing(echo) as server:
        request = httpx.Request("GET", server.url)
        transport.handle_request(request)
        transport.close()
        with pytest.raises(RuntimeError, match="closed"):
            transport.handle_request(request)


def test_proxies_are_not_used(http, monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with playing(echo) as server, httpx.Client(transport=Transport(), trust_env=False) as client:
        assert client.post(server.url, content=b"x").content == b"x"
        assert http.post(server.url, content=b"x").content == b"x"


# Streams.


def test_events_are_read_as_they_come(http):
    """The second one is sent when the first one has been read."""
    read = threading.Event()

    def talk(played, peer):
        while played.heard(peer) is not None:
            peer.sendall(CHUNKED + b"8\r\ndata: 1\n\r\n")
            assert read.wait(SECONDS)
            peer.sendall(b"8\r\ndata: 2\n\r\n0\r\n\r\n")

    with playing(talk) as server:
        for _ in range(2):
            found = []
            with http.stream("GET", server.url) as stream:
                for line in stream.iter_lines():
                    found.append(line)
                    read.set()
            assert found == ["data: 1", "data: 2"]
        assert server.connections == 1


def test_a_stream_that_is_left_takes_its_connection_along(http):
    answer = CHUNKED + b"8\r\ndata: 1\n\r\n0\r\n\r\n"
    with playing(answering(answer, answer)) as server:
        for _ in range(2):
            with http.stream("GET", server.url) as stream:
                assert stream.status_code == 200
        assert server.connections == 2


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
            echo(played, secure)

    return talk


def test_over_tls(certificate):
    content = np.random.default_rng(0).bytes(3_000_000)
    transport = Transport(ssl.create_default_context(cafile=certificate))
    with (
        playing(over_tls(certificate)) as server,
        httpx.Client(transport=transport, timeout=SECONDS) as client,
    ):
        url = server.url.replace("http://127.0.0.1", "https://localhost")
        for sent in (b"x", content):
            assert client.post(url, content=sent).content == sent
        assert server.connections == 1
        other = server.url.replace("http", "https")
        with pytest.raises(httpx.ConnectError, match="certificate"):
            client.get(other)


@pytest.mark.parametrize("kind", KINDS)
def test_a_certificate_that_the_environment_names_is_trusted(certificate, monkeypatch, kind):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with playing(over_tls(certificate)) as server:
        url = server.url.replace("http://127.0.0.1", "https://localhost")
        with (
            connected(kind, url, timeout=SECONDS, retries=0) as client,
            pytest.raises(UnreachableError, match="not as a hetune service does"),
        ):
            client.models()  # the echo of nothing is no list of models
    monkeypatch.delenv("SSL_CERT_FILE")
    with playing(over_tls(certificate)) as server:
        url = server.url.replace("http://127.0.0.1", "https://localhost")
        with (
            connected(kind, url, timeout=SECONDS, retries=0) as client,
            pytest.raises(UnreachableError, match="name the file of your CA in SSL_CERT_FILE"),
        ):
            client.models()


def test_a_certificate_that_nobody_trusts(http, certificate):
    with (
        playing(over_tls(certificate)) as server,
        pytest.raises(httpx.ConnectError, match="certificate"),
    ):
        http.get(server.url.replace("http://127.0.0.1", "https://localhost"))
