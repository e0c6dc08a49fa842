"""A connection to a service: one request after the other."""

from __future__ import annotations

import ssl
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache
from time import monotonic

import h11
import httpx

from hetune.clients.http.answer import MOST_HEAD, Answer
from hetune.clients.http.channel import Channel

_RESTING_SECONDS = 5.0
"""What lies between may forget a connection that rests for longer, and not say so."""
_HEADS = 64
_PORTS = {"http": 80, "https": 443}


class Connection:
    """A connection, for one thread at a time.

    Args:
        url: Of what to connect to.
        context: For HTTPS.
        seconds: Longest time that connecting takes.

    Raises:
        httpx.ConnectTimeout: It takes longer.
        httpx.ConnectError: Nobody answers, or one with a wrong certificate.
    """

    def __init__(
        self, url: httpx.URL, context: ssl.SSLContext | None, seconds: float | None
    ) -> None:
        host, port = url.raw_host.decode("ascii"), url.port or _PORTS[url.scheme]
        self._channel = Channel(host, port, context, seconds)
        self._since = monotonic()

    @property
    def is_fit(self) -> bool:
        """Whether a connection that has rested can serve: its other end has not hung up."""
        return monotonic() - self._since < _RESTING_SECONDS and not self._channel.is_readable

    def rest(self) -> None:
        """Begins to rest."""
        self._since = monotonic()

    def close(self) -> None:
        """Ends it."""
        self._channel.close()

    def ask(self, request: httpx.Request) -> Answer:
        """Sends a request, and reads the head of the answer.

        Raises:
            httpx.TransportError: Either fails.
        """
        seconds = request.extensions.get("timeout", {})
        head, event = _head(request)
        self._channel.wait_at_most(seconds.get("write"))
        with suppress(httpx.WriteError):  # who refuses a body unread has answered, and hung up
            self._send(head, request)
        self._channel.wait_at_most(seconds.get("read"))
        return Answer(self._channel, lambda: _asked(event)[0], request.method)

    def _send(self, head: bytes, request: httpx.Request) -> None:
        assert isinstance(request.stream, Iterable)
        for piece in request.stream:
            # A service that is woken by a head alone has to be woken again for the body.
            self._channel.write(head, piece)
            head = b""
        self._channel.write(head)


def _head(request: httpx.Request) -> tuple[bytes, h11.Request]:
    """A request without its body: as it is sent, and as h11 has it.

    Raises:
        httpx.LocalProtocolError: It would be read as something else, or its end not be known.
    """
    if "transfer-encoding" in request.headers:
        raise httpx.LocalProtocolError("the request's length is not known: set Content-Length")
    try:
        return _checked(request.method, request.url.raw_path, tuple(request.headers.raw))
    except h11.LocalProtocolError as error:
        raise httpx.LocalProtocolError(f"this cannot be sent in a request: {error}") from error


@lru_cache(_HEADS)
def _checked(
    method: str, target: bytes, headers: tuple[tuple[bytes, bytes], ...]
) -> tuple[bytes, h11.Request]:
    """The head of a request. Checking it takes longer than sending it, and most are sent again."""
    event = h11.Request(method=method, target=target, headers=list(headers))
    return _asked(event)[1], event


def _asked(event: h11.Request) -> tuple[h11.Connection, bytes]:
    """What reads the answer to a request, and the request's head."""
    protocol = h11.Connection(h11.CLIENT, max_incomplete_event_size=MOST_HEAD)
    return protocol, protocol.send(event) or b""
