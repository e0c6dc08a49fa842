"""Answers of HTTP/1.1, read from a connection. What is not quite one is refused (RFC 9112)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NoReturn

import httpx
import numpy as np

from hetune.clients.http.channel import Channel

_STATUS = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9]{2})(?: [\t -~\x80-\xff]*)?")
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):([\t -~\x80-\xff]*)")
_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[\t -~\x80-\xff]*)?")
_LENGTH = re.compile(rb"[0-9]{1,18}")
_MOST_HEAD = 1 << 16
_MOST_HEADS = 8
"""An answer's, after those that only say that one will come."""
_PIECE = 1 << 16
_ANOTHER_PROTOCOL = 101
_FINAL = 200
_EMPTY = (204, 304)


class Answer:
    """An answer whose head has been read, and whose body has to be.

    Args:
        channel: Where it comes from.
        method: Of the request.

    Attributes:
        status: HTTP's.
        headers: Names and values.
        length: Of the body; None if only its end will tell.
        is_over: Whether all of it has been read, and another answer may follow.

    Raises:
        httpx.TransportError: It does not come, or is none.
    """

    def __init__(self, channel: Channel, method: str) -> None:
        self._channel = channel
        self._unread = bytearray()
        self._is_last = self._is_chunked = self.is_over = False
        for _ in range(_MOST_HEADS):
            self._read_head()
            if self.status >= _FINAL:
                break
        else:
            _refuse("it goes on saying that it will come")
        self.length = self._body_length(method)

    def whole(self, length: int) -> memoryview:
        """The body, of that length, in memory of its own that may be written to.

        Raises:
            httpx.TransportError: It does not come.
        """
        try:
            # NumPy's is in huge pages where it is large, which spares most of the page faults.
            memory = np.empty(length, dtype=np.uint8).data
        except (MemoryError, ValueError):
            raise httpx.ReadError(f"there is no memory for {length} bytes of an answer") from None
        found = min(len(self._unread), length)
        memory[:found] = self._unread[:found]
        del self._unread[:found]
        while found < length:
            more = self._channel.read_into(memory[found:])
            if not more:
                _refuse(f"it ends after {found} of {length} bytes")
            found += more
        self._end()
        return memory

    def pieces(self) -> Iterator[bytes]:
        """The body as it comes.

        Raises:
            httpx.TransportError: It does not come.
        """
        if self._is_chunked:
            while left := self._chunk():
                yield from self._some(left)
                if self._line():
                    _refuse("a chunk is longer than it says")
            while line := self._line():
                _field(line)
        elif self.length is not None:
            yield from self._some(self.length)
        else:
            while piece := self._piece(_PIECE):
                yield piece
        self._end()

    def _end(self) -> None:
        self.is_over = not (self._is_last or self._unread)

    # The head.

    def _read_head(self) -> None:
        lines = self._until(b"\r\n\r\n").split(b"\r\n")
        first = _STATUS.fullmatch(lines[0])
        if first is None:
            _refuse(f"it begins with {bytes(lines[0][:40])!r}")
        self._version, self.status = int(first[1]), int(first[2])
        if self.status == _ANOTHER_PROTOCOL:
            _refuse("it changes to another protocol")
        self.headers = [_field(line) for line in lines[1:]]

    def _body_length(self, method: str) -> int | None:
        found: dict[bytes, list[bytes]] = {}
        for name, value in self.headers:
            found.setdefault(name.lower(), []).append(value)
        wishes = b",".join(found.get(b"connection", [])).lower()
        self._is_last = b"close" in wishes or (self._version == 0 and b"keep-alive" not in wishes)
        lengths = set(found.get(b"content-length", []))
        codings = b",".join(found.get(b"transfer-encoding", [])).lower()
        if len(lengths) > 1 or not all(map(_LENGTH.fullmatch, lengths)):
            _refuse(f"it has a Content-Length that is none, {b' and '.join(lengths)[:80]!r}")
        if codings and (codings != b"chunked" or lengths):
            _refuse("it does not say where it ends")
        if method == "HEAD" or self.status in _EMPTY:
            return 0
        self._is_chunked = bool(codings)
        if lengths:
            return int(lengths.pop())
        self._is_last = self._is_last or not codings
        return None

    # Bytes.

    def _chunk(self) -> int:
        line = self._line()
        size = _SIZE.fullmatch(line)
        if size is None:
            _refuse(f"a chunk begins with {bytes(line[:40])!r}")
        return int(size[1], 16)

    def _line(self) -> bytearray:
        return self._until(b"\r\n")

    def _until(self, mark: bytes) -> bytearray:
        """What comes before the mark, which is read, too."""
        begin = 0
        while (end := self._unread.find(mark, begin)) < 0 and len(self._unread) <= _MOST_HEAD:
            begin = max(0, len(self._unread) - len(mark) + 1)
            more = self._channel.read(_PIECE)
            if not more:
                _refuse("it ends too early" if self._unread else "there is none")
            self._unread += more
        if not 0 <= end <= _MOST_HEAD:
            _refuse(f"its head, or a line in it, has more than {_MOST_HEAD} bytes")
        found = self._unread[:end]
        del self._unread[: end + len(mark)]
        return found

    def _some(self, left: int) -> Iterator[bytes]:
        while left:
            piece = self._piece(min(left, _PIECE))
            if not piece:
                _refuse(f"it ends {left} bytes too early")
            left -= len(piece)
            yield piece

    def _piece(self, most: int) -> bytes:
        if not self._unread:
            return self._channel.read(most)
        piece = bytes(self._unread[:most])
        del self._unread[:most]
        return piece


def _field(line: bytearray) -> tuple[bytes, bytes]:
    """Name and value of a header."""
    found = _FIELD.fullmatch(line)
    if found is None:
        _refuse(f"it has the header {bytes(line[:40])!r}")
    return bytes(found[1]), bytes(found[2]).strip(b" \t")


def _refuse(reason: str) -> NoReturn:
    raise httpx.RemoteProtocolError(f"the answer is none of HTTP/1.1: {reason}")
