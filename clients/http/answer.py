"""Answers of HTTP/1.1: h11 reads them, but for bodies of known length, which need no reading."""

from __future__ import annotations

from collections.abc import Iterator
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


class Answer:
    """An answer whose head has been read, and whose body has to be.

    Args:
        channel: Where it comes from.
        protocol: Of this exchange alone; the request's head has been sent by it.
        method: Of the request.

    Attributes:
        status: HTTP's.
        headers: Names and values.
        length: Of the body; None if only its end will tell.
        is_over: Whether all of it has been read, and another answer may follow.

    Raises:
        httpx.TransportError: It does not come, or is none.
    """

    def __init__(self, channel: Channel, protocol: h11.Connection, method: str) -> None:
        self._channel, self._protocol = channel, protocol
        self.is_over = False
        head = self._head()
        self.status, self.headers = head.status_code, head.headers.raw_items()
        given = dict(head.headers)
        wishes = given.get(b"connection", b"").lower()
        self._is_last = b"close" in wishes or head.http_version != b"1.1"
        self.length: int | None = None
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
        unread, _ = self._protocol.trailing_data
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
        while not isinstance(event := self._event(), h11.EndOfMessage):
            if not isinstance(event, h11.Data):
                _refuse("it ends too early")
            yield bytes(event.data)
        unread, _ = self._protocol.trailing_data
        self.is_over = self._protocol.their_state is h11.DONE and not unread

    def _head(self) -> h11.Response:
        for _ in range(_MOST_HEADS):
            event = self._event()
            if not isinstance(event, h11.InformationalResponse):
                break
        if not isinstance(event, h11.Response):
            _refuse("there is none")
        return event

    def _event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        try:
            while (event := self._protocol.next_event()) is h11.NEED_DATA:
                self._protocol.receive_data(self._channel.read(_PIECE))
        except h11.RemoteProtocolError as error:
            _refuse(str(error))
        return event


def _refuse(reason: str) -> NoReturn:
    raise httpx.RemoteProtocolError(f"the answer is none of HTTP/1.1: {reason}")
