"""Answers as the client reads them, however they are cut in pieces: as h11 does, or not at all.

Bodies of known length go past h11, which is why this has to be looked at.
"""

import h11
import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetune.clients.http.answer import MOST_HEAD, Answer
from hetune.clients.http.received import Received, body_of

BODIES = (
    b"Content-Length: 5\r\n\r\nhello",
    b"content-length:5 \r\nConnection: close\r\n\r\nhello",
    b"Transfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n02;a=b\r\nlo\r\n0\r\nA: b\r\n\r\n",
    b"X: y\r\n\r\nhello",
    b"date: d\r\ncontent-length: 5\r\ncontent-type: a; b=c\r\n\r\nhello",
)
FIRST = (b"HTTP/1.1 200 OK\r\n", b"HTTP/1.0 404 \r\n", b"HTTP/1.1 204 a b\r\n")
BEFORE = (b"", b"", b"HTTP/1.1 100 Continue\r\nX: y\r\n\r\n")
TOKENS = (
    *(b"\r\n", b"\n", b"\r", b"\0", b"\x0b", b"\x7f", b"\xe9", b" ", b"\t", b":", b";", b",", b"-"),
    *(b"0", b"1", b"5", b"f", b"_", b"+", b"0x", b"HTTP/1.1 ", b"close", b"chunked", b"gzip"),
    *(b"Content-Length: 4\r\n", b"Transfer-Encoding: chunked\r\n", b"Connection: keep-alive\r\n"),
    *(b"content-length: 4\r\n", b"date: \r\n", b"vary:a\r\n", b"date", b"Date", b"\r\n\r\n"),
)


class Cut:
    """Gives bytes as a network may: some at a time, then none."""

    def __init__(self, content, sizes):
        self._content, self._sizes = content, iter(sizes)

    def read(self, most):
        size = min(most, next(self._sizes, most))
        piece, self._content = self._content[:size], self._content[size:]
        return piece

    def read_into(self, memory):
        piece = self.read(len(memory))
        memory[: len(piece)] = piece
        return len(piece)


@st.composite
def streams(draw):
    """Answers, most of them damaged."""
    content = draw(st.sampled_from(BEFORE)) + draw(st.sampled_from(FIRST))
    content += draw(st.sampled_from(BODIES))
    for _ in range(draw(st.integers(0, 3))):
        at, gone = draw(st.integers(0, len(content))), draw(st.integers(0, 3))
        new = draw(st.sampled_from((b"", *TOKENS)))
        content = content[:at] + new + content[at + gone :]
    return content


def answer_of(content, sizes=(), method="GET"):
    protocol = h11.Connection(h11.CLIENT, max_incomplete_event_size=MOST_HEAD)
    protocol.send(h11.Request(method=method, target="/", headers=[("Host", "h")]))
    return Answer(Cut(content, sizes), lambda: protocol, method)


def ours(content, sizes):
    try:
        answer = answer_of(content, sizes)
        if answer.length is None:
            body = b"".join(answer.pieces())
        else:
            body = bytes(answer.whole(answer.length))
    except httpx.RemoteProtocolError:
        return None
    return answer.status, plain(answer.headers), body


def h11s(content):
    client = h11.Connection(h11.CLIENT)
    client.send(h11.Request(method="GET", target="/", headers=[("Host", "h")]))
    client.send(h11.EndOfMessage())
    client.receive_data(content)
    client.receive_data(b"")
    head, body = None, b""
    try:
        while True:
            match client.next_event():
                case h11.InformationalResponse():
                    pass
                case h11.Response(status_code=status, headers=headers):
                    head = status, plain(headers)
                case h11.Data(data=data):
                    body += data
                case h11.EndOfMessage():
                    return *head, body
                case _:
                    return None
    except h11.RemoteProtocolError:
        return None


def plain(headers):
    """Without what may be said twice."""
    return [(k.lower(), bytes(v)) for k, v in headers if k.lower() != b"content-length"]


@given(streams(), st.lists(st.integers(1, 30)))
def test_what_is_read_is_what_h11_reads(content, sizes):
    found = ours(content, sizes)
    assert found is None or found == h11s(content)
    assert found == ours(content, [])


@pytest.mark.parametrize("first", FIRST)
@pytest.mark.parametrize("body", BODIES)
def test_what_is_whole_is_read(first, body):
    assert ours(BEFORE[-1] + first + body, []) == h11s(first + body) is not None


def test_a_usual_head_needs_no_reading():
    content = FIRST[0] + BODIES[-1]

    def never():
        raise AssertionError

    answer = Answer(Cut(content, ()), never, "POST")
    assert b"".join(answer.pieces()) == b"hello"
    assert answer.is_over
    assert answer.headers == answer_of(content, [1] * len(content)).headers


def test_what_comes_after_an_answer_spoils_the_connection():
    content = FIRST[0] + BODIES[0]
    for more, is_over in ((b"", True), (b"H", False)):
        answer = answer_of(content + more)
        assert not answer.is_over
        assert answer.whole(answer.length) == b"hello"
        assert answer.is_over is is_over


@pytest.mark.parametrize("before", [b"", BEFORE[-1], b"HTTP/1.1 2"], ids=range(3))
def test_a_connection_that_is_closed_before_an_answer(before):
    with pytest.raises(httpx.RemoteProtocolError, match="closed before an answer"):
        answer_of(before)


def test_no_body_comes_after_a_question_for_the_head():
    answer = answer_of(FIRST[0] + b"Content-Length: 5\r\n\r\n", method="HEAD")
    assert (answer.length, bytes(answer.whole(0)), answer.is_over) == (0, b"", True)


def test_a_received_body_is_copied_only_for_who_asks():
    memory = memoryview(bytearray(b'{"a": 1}'))
    found = Received(200, [(b"Content-Type", b"application/json")], memory)
    assert body_of(found) is memory
    assert found.json() == {"a": 1}
    assert found.content is found.read()
    assert found.text == '{"a": 1}'
    assert body_of(httpx.Response(200, content=b"x")) == b"x"
