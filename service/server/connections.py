"""Connections of clients: heads have a size and a time, and so have answers that nobody reads."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

HEAD_SECONDS = 20.0
"""Until a head has to be there, from its first byte or from the connection's beginning."""
READ_SECONDS = 120.0
"""Until a client has to have read some of an answer, of which no more than a MiB is under way."""
HEAD_BYTES = 1 << 16
"""The most that is received of a head after its first piece, or of the trailers of a body."""
AT_ONCE_BYTES = 1 << 12
"""A larger answer goes out as soon as it is there, a smaller one with what the loop does next."""
MOST_WAITING = 64
"""Requests that wait for the answer to one before them."""
READ_BYTES = 1 << 20
"""The most of a body that is received at a time."""
_TOLD = "connection_made", "connection_lost", "eof_received", "pause_writing", "resume_writing"


class BufferedConnection(asyncio.BufferedProtocol):
    """Receives into memory that connections share: the parser copies what it takes of it at once.

    Memory of its own for each piece of a large body costs more than all else that is done with it.

    Args:
        buffer: For all connections of an event loop.
        **given: What uvicorn gives to a protocol.
    """

    def __init__(self, buffer: memoryview, **given: Any) -> None:
        self._buffer, self._connection = buffer, Connection(**given)
        for name in _TOLD:
            setattr(self, name, getattr(self._connection, name))

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where to put what comes: of a head, which is refused once it is too large, less."""
        return self._buffer if self._connection.is_in_body else self._buffer[:HEAD_BYTES]

    def buffer_updated(self, nbytes: int) -> None:
        """So many bytes have come."""
        self._connection.data_received(self._buffer[:nbytes])


class Connection(HttpToolsProtocol):
    """uvicorn's, which waits for a head for as long as some byte of it comes, or none at all.

    So it does until an answer is read, and its parser does not bound the size of a head. Bodies
    have a time of their own, which begins when a route reads one. What is left of a body after its
    answer counts as a head. Nor does it bound how many requests wait for the one that is answered,
    or tell that one that the client has left, if others wait.
    """

    _answered: RequestResponseCycle | None = None
    """What is answered now, or was last; `cycle` is what came last."""
    _timer: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None
    _unheard = 0
    """Bytes since the parser told anything but headers."""
    _has_told = False
    _in_head = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begins to wait."""
        super().connection_made(transport)  # type: ignore[arg-type]  # uvloop's is none by class
        self.transport.set_write_buffer_limits(high=AT_ONCE_BYTES)
        self._watch()

    def data_received(self, data: bytes | memoryview) -> None:
        """Waits on, unless a request is being answered now."""
        self._has_told = False
        super().data_received(data)  # type: ignore[arg-type]  # the parser takes both
        self._unheard = 0 if self._has_told else self._unheard + len(data)
        if self._unheard >= HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response("The head of the request is too large.")
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Waits no more."""
        self._stop()
        self._was_read()
        if self._answered is not None and not self._answered.response_complete:
            self._answered.disconnected = True
            self._answered.message_event.set()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """The client does not read as fast as it is answered."""
        super().pause_writing()
        self._was_read()
        self._unread = self.loop.call_later(READ_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """It has read on."""
        self._was_read()
        super().resume_writing()

    def on_response_complete(self) -> None:
        """An answer has ended: the next one begins."""
        if self.pipeline:
            self._answered = self.pipeline[-1][0]
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        """Ends the connection, and says why unless that would become part of an answer."""
        if self._is_answering:
            self.transport.close()
        else:
            super().send_400_response(msg)

    def _was_read(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    # What the parser tells.

    def on_message_begin(self) -> None:
        """A head begins."""
        self._has_told = self._in_head = True
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header; or a trailer, which counts for nothing: routes may have seen the head."""
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """A head has ended."""
        self._has_told, self._in_head = True, False
        if len(self.pipeline) < MOST_WAITING:
            is_first = not self._is_serving
            super().on_headers_complete()
            if is_first:
                self._answered = self.cycle
        elif not self.transport.is_closing():  # more heads may follow in the same piece
            self.send_400_response("Too many requests wait for the one before.")

    def on_body(self, body: bytes) -> None:
        """A piece of a body."""
        self._has_told = True
        received: Any = self.cycle.body
        if not received:  # bytes become the next event as they are, a bytearray is copied
            self.cycle.body = b""  # type: ignore[assignment]
        elif isinstance(received, bytes):  # it would be copied for each of many pieces to come
            self.cycle.body = bytearray(received)
        super().on_body(body)

    @property
    def is_in_body(self) -> bool:
        """Whether more of a body is to come."""
        return not self._in_head and self.cycle.more_body

    # Who is slow.

    @property
    def _is_serving(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    @property
    def _is_answering(self) -> bool:
        answered = self._answered
        return answered is not None and answered.response_started and not answered.response_complete

    def _watch(self) -> None:
        if self._is_serving or self.transport.is_closing():
            self._stop()
        elif self._timer is None:
            self._timer = self.loop.call_later(HEAD_SECONDS, self._end)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end(self) -> None:
        self._timer = None
        if not self._is_serving:
            self.transport.close()
