"""Answers of HTTP/1.1: h11 reads them, but for bodies of known length, which need no reading.

Nor do heads as our service writes them for what it was asked: nothing in these has to be understood
but a status and a length. All others are h11's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NoReturn

import h11
import httpx
import numpy as np

from hetune.clients.http.channel import Channel

MOST_HEAD = 1 << 16
_MOST_HEADS = 8
"""An answer's, after those that only say that one will come."""
_PIECE = 1 << 14
"""Bytes that are read at a time, but for bodies of known length: well below `MOST_HEAD`."""
_EMPTY = (204, 304)
_OTHER = rb"(?:(?:content-type|date|vary|x-request-id|traceparent): [!-~](?:[ -~]*[!-~])?\r\n)*"
_USUAL = re.compile(
    rb"HTTP/1\.1 (20[01]) [ A-Za-z]*\r\n(%b(?:content-length: ([0-9]{1,18})\r\n)%b)\r\n"
    % (_OTHER, _OTHER)
)


class Answer:
    """An answer whose head has been read, and whose body has to be.

    Args:
        channel: Where it comes from.
        read: Makes what reads it; the request's head has been sent by that.
        method: Of the request.

    Attributes:
        status: HTTP's.
        headers: Names and values.
        length: Of the body; None if only its end will tell.
        is_over: Whether all of it has been read, and another answer may follow.

    Raises:
        httpx.TransportError: It does not come, or is none.
    """

    def __init__(self, channel: Channel, read: Callable[[], h11.Connection], method: str) -> None:
        self._channel = channel
        self._protocol: h11.Connection | None = None
        self.is_over = False
        self.length: int | None = None
        self._unread = b""
        first = channel.read(_PIECE)
        if not first:
            _hung_up()
        if method != "HEAD" and (usual := _USUAL.match(first)) is not None:
            self.status, self.length = int(usual[1]), int(usual[3])
            lines = usual[2].split(b"\r\n")[:-1]
            self.headers = [(name, value) for name, _, value in (x.partition(b": ") for x in lines)]
            self._is_last, self._unread = False, first[usual.end() :]
            return
        self._protocol = protocol = read()
        protocol.receive_data(first)
        head = self._head(protocol)
        self.status, self.headers = head.status_code, head.headers.raw_items()
        given = dict(head.headers)
        wishes = given.get(b"connection", b"").lower()
        self._is_last = b"close" in wishes or head.http_version != b"1.1"
        if method == "HEAD" or self.status in _EMPTY:
            self.length = 0
        elif b"content-length" in given and b"transfer-encoding" not in given:
            self.length = int(given[b"content-length"])

    def whole(self, length: int) -> memoryview:
        """The body, of that length, in memory of its own that may be written to.

        Raises:
            httpx.TransportError: It does not come.
        """
        try:
            # NumPy's is in huge pages where it is large, which spares most of the page faults.
            memory = np.empty(length, dtype=np.uint8).data
        except (MemoryError, ValueError, OverflowError):
            raise httpx.ReadError(f"there is no memory for {length} bytes of an answer") from None
        unread = self._unread if self._protocol is None else self._protocol.trailing_data[0]
        found = min(len(unread), length)
        memory[:found] = unread[:found]
        while found < length:
            more = self._channel.read_into(memory[found:])
            if not more:
                _refuse(f"it ends after {found} of {length} bytes")
            found += more
        self.is_over = not self._is_last and len(unread) <= length
        return memory

    def pieces(self) -> Iterator[bytes]:
        """The body as it comes.

        Raises:
            httpx.TransportError: It does not come.
        """
        if (protocol := self._protocol) is None:
            assert self.length is not None
            yield bytes(self.whole(self.length))
            return
        while not isinstance(event := self._event(protocol), h11.EndOfMessage):
            if not isinstance(event, h11.Data):
                _refuse("it ends too early")
            yield bytes(event.data)
        unread, _ = protocol.trailing_data
        self.is_over = protocol.their_state is h11.DONE and not unread

    def _head(self, protocol: h11.Connection) -> h11.Response:
        for _ in range(_MOST_HEADS):
            event = self._event(protocol)
            if not isinstance(event, h11.InformationalResponse):
                break
        if not isinstance(event, h11.Response):
            _refuse("there is none")
        return event

    def _event(
        self, protocol: h11.Connection
    ) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        try:
            while (event := protocol.next_event()) is h11.NEED_DATA:
                more = self._channel.read(_PIECE)
                if not more and protocol.their_state is h11.SEND_RESPONSE:
                    _hung_up()
                protocol.receive_data(more)
        except h11.RemoteProtocolError as error:
            _refuse(str(error))
        return event


def _hung_up() -> NoReturn:
    raise httpx.RemoteProtocolError("the connection was closed before an answer came")


def _refuse(reason: str) -> NoReturn:
    raise httpx.RemoteProtocolError(f"the answer is none of HTTP/1.1: {reason}")
