"""What sends requests: connections that are kept, for any number of threads."""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Iterator
from functools import partial
from threading import Lock
from typing import TypeAlias

import httpx

from hetune.clients.http.answer import Answer
from hetune.clients.http.connection import Connection
from hetune.clients.http.received import Received

_MOST_RESTING = 32
_Origin: TypeAlias = tuple[int, str, bytes, int | None]


class Transport(httpx.BaseTransport):
    """Sends httpx's requests over HTTP/1.1, in less time than httpx's own.

    A body of a known length is read at once, into memory that tensors may lie in (`Received`); any
    other as it comes. No proxy is used, and nothing is sent again.

    Args:
        context: For HTTPS; by default it trusts what httpx trusts, or SSL_CERT_FILE, SSL_CERT_DIR.
    """

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self._context = context
        self._lock = Lock()
        self._resting: dict[_Origin, list[Connection]] = {}
        self._is_closed = False

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Sends a request, and gives the answer.

        Raises:
            httpx.TransportError: There is none.
            RuntimeError: The transport is closed.
        """
        url = request.url
        # A forked process must not speak in its parent's connections.
        origin = (os.getpid(), url.scheme, url.raw_host, url.port)
        connection = self._rested(origin) or self._connected(request)
        try:
            answer = connection.ask(request)
            if answer.length is not None and not _is_encoded(answer):
                memory = answer.whole(answer.length)
                self._done(origin, connection, answer)
                return Received(answer.status, answer.headers, memory)
        except BaseException:
            connection.close()
            raise
        stream = _Stream(answer, partial(self._done, origin, connection, answer))
        return httpx.Response(answer.status, headers=answer.headers, stream=stream)

    def close(self) -> None:
        """Ends the connections."""
        with self._lock:
            self._is_closed = True
            resting, self._resting = self._resting, {}
        for connections in resting.values():
            for connection in connections:
                connection.close()

    def _rested(self, origin: _Origin) -> Connection | None:
        """The connection that has rested for the shortest time, if one is fit."""
        while True:
            with self._lock:
                if self._is_closed:
                    raise RuntimeError("the client has been closed, and sends no more requests")
                connections = self._resting.get(origin)
                connection = connections.pop() if connections else None
            if connection is None or connection.is_fit:
                return connection
            connection.close()

    def _connected(self, request: httpx.Request) -> Connection:
        seconds = request.extensions.get("timeout", {}).get("connect")
        return Connection(request.url, self._context_for(request.url), seconds)

    def _context_for(self, url: httpx.URL) -> ssl.SSLContext | None:
        if url.scheme == "http":
            return None
        if url.scheme != "https":
            raise httpx.UnsupportedProtocol(f"{url.scheme} is not spoken: give http or https")
        if self._context is None:
            self._context = httpx.create_ssl_context()
        return self._context

    def _done(self, origin: _Origin, connection: Connection, answer: Answer) -> None:
        """Lets a connection rest whose answer is over, and ends any other."""
        with self._lock:
            resting = self._resting.setdefault(origin, [])
            if answer.is_over and not self._is_closed and len(resting) < _MOST_RESTING:
                connection.rest()
                resting.append(connection)
                return
        connection.close()


class _Stream(httpx.SyncByteStream):
    """A body that is read as it comes."""

    def __init__(self, answer: Answer, done: Callable[[], None]) -> None:
        self._answer, self._done = answer, done
        self._is_closed = False

    def __iter__(self) -> Iterator[bytes]:
        return self._answer.pieces()

    def close(self) -> None:
        """Nobody will read what may be left."""
        if not self._is_closed:
            self._is_closed = True
            self._done()


def _is_encoded(answer: Answer) -> bool:
    return any(name.lower() == b"content-encoding" for name, _ in answer.headers)
