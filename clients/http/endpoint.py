"""Where a service is, and what every request to it says. No IO."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Iterator
from functools import lru_cache
from typing import Any

import httpx

from hetune.clients.http.call import EVENTS, JSON, ServiceCall
from hetune.service.core.formats.message import MEDIA_TYPE
from hetune.variants.errors import AccessError, InputError

KEY_VARIABLE = "HETUNE_API_KEY"
_CONNECT_SECONDS = 10.0
_KEPT_CONNECTIONS = 32
_EVENTS_SECONDS = 30.0
"""A stream of events has a comment at least every 15 seconds, whatever becomes of its job."""
_EXAMPLE = "give one such as http://127.0.0.1:8000"


class Endpoint:
    """A service's URL, with the key and the times of a client.

    Args:
        url: Of the service.
        key: The service's key; `HETUNE_API_KEY` by default, or none.
        timeout: Seconds to wait for an answer, or for the network to take or give more of it; None
            for as long as it takes.

    Attributes:
        url: Of the service.
        is_closed: Whether nothing is to be sent any more.

    Raises:
        InputError: The URL is none of a service.
        AccessError: No header can hold the key.
    """

    def __init__(self, url: str, key: str | None, timeout: float | None) -> None:
        key = key or os.environ.get(KEY_VARIABLE)
        if key and not (key.isascii() and key.isprintable()):
            raise AccessError(
                f"the key has characters that no header can hold: check key= and {KEY_VARIABLE}"
            )
        self.url = _checked(url)
        connect = _CONNECT_SECONDS if timeout is None else min(timeout, _CONNECT_SECONDS)
        self._timeout = httpx.Timeout(timeout, connect=connect).as_dict()
        self._headers = [(b"Host", self.url.netloc)]
        if key:
            self._headers.append((b"Authorization", f"Bearer {key}".encode()))
        self._root = self.url.raw_path.rstrip(b"/")
        self._url_of = lru_cache(maxsize=128)(self._joined)
        self.is_closed = False

    def request(self, call: ServiceCall[Any]) -> httpx.Request:
        """What sends a call.

        Raises:
            RuntimeError: The client has been closed.
        """
        if self.is_closed:
            raise RuntimeError("the client has been closed: make another one")
        headers = [*self._headers, (b"Accept", call.accept.encode()), *trace_headers()]
        if call.body is not None:
            kind = JSON if isinstance(call.body, bytes) else MEDIA_TYPE
            headers.append((b"Content-Type", kind.encode()))
        if call.body is not None or call.method != "GET":
            headers.append((b"Content-Length", str(len(call.body or b"")).encode()))
        return httpx.Request(
            call.method,
            self._url_of(call.path),
            headers=headers,
            stream=_Body(call),
            extensions={"timeout": self._times(call)},
        )

    def transport_options(self) -> dict[str, Any]:
        """What `httpx.HTTPTransport` and `httpx.AsyncHTTPTransport` are made with."""
        limits = httpx.Limits(max_keepalive_connections=_KEPT_CONNECTIONS, keepalive_expiry=5.0)
        return {
            "trust_env": False,  # a proxy is no place for a local service's requests
            # SSL_CERT_FILE counts; reading certificates takes longer than many a call
            "verify": self.url.scheme == "https" and httpx.create_ssl_context(),
            "limits": limits,
        }

    def _joined(self, path: str) -> httpx.URL:
        return self.url.copy_with(raw_path=self._root + path.encode())

    def _times(self, call: ServiceCall[Any]) -> dict[str, float | None]:
        times = self._timeout
        read = times["read"]
        if call.accept == EVENTS and read is not None:
            times = {**times, "read": max(read, _EVENTS_SECONDS)}
        return times


class _Body(httpx.SyncByteStream, httpx.AsyncByteStream):
    """What a call sends, from its begin each time."""

    def __init__(self, call: ServiceCall[Any]) -> None:
        self._call = call

    def __iter__(self) -> Iterator[Any]:
        return self._call.pieces()

    async def __aiter__(self) -> AsyncIterator[Any]:
        for piece in self._call.pieces():
            yield piece


def retries_of(retries: int) -> int:
    """How often a request may be sent again.

    Raises:
        InputError: It is negative.
    """
    if retries < 0:
        raise InputError(f"retries is {retries}: give 0 for none, or more")
    return retries


def trace_headers() -> list[tuple[bytes, bytes]]:
    """W3C's `traceparent` and `tracestate` of the span that is current; none where there is none.

    Imports nothing unless the program has.
    """
    if "opentelemetry.trace" not in sys.modules:
        return []
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    found: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(found)
    return [(name.encode(), value.encode()) for name, value in found.items()]


def _checked(url: str) -> httpx.URL:
    try:
        found = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise InputError(f"{url!r} is no URL ({error}): {_EXAMPLE}") from None
    if found.userinfo:
        raise InputError(f"the URL of {found.host} holds a secret: give it as key= instead")
    if found.scheme not in ("http", "https") or not found.host:
        raise InputError(f"{url!r} is no URL of a service: {_EXAMPLE}")
    return found
