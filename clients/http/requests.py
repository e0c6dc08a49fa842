"""Requests of calls. No IO."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import httpx

from hetune.clients.http.call import Call
from hetune.clients.http.job_calls import EVENTS

_PATHS = 256
_QUIET_SECONDS = 30.0
"""A stream of events is heard of twice as often, whatever becomes of its job."""


class Requests:
    """Makes requests of calls. What is the same in all of them is made once.

    Args:
        http: Whose URL, headers and times they have.
    """

    def __init__(self, http: httpx.Client | httpx.AsyncClient) -> None:
        self._base = str(http.base_url).rstrip("/")
        own = [(name, value) for name, value in http.headers.raw if name.lower() != b"accept"]
        self._headers = [(b"Host", http.base_url.netloc), *own]
        times = http.timeout.as_dict()
        self._extensions = {"timeout": times}
        if (read := times["read"]) is not None:
            times = times | {"read": max(read, _QUIET_SECONDS)}
        self._watching = {"timeout": times}

    def of(self, call: Call[Any]) -> httpx.Request:
        """The request that sends a call."""
        own = [(name.encode(), value.encode()) for name, value in call.headers.items()]
        return httpx.Request(
            call.method,
            _url(self._base, call.path),
            headers=[*self._headers, *own],
            stream=call.stream,
            extensions=self._watching if call.accept == EVENTS else self._extensions,
        )


@lru_cache(_PATHS)
def _url(base: str, path: str) -> httpx.URL:
    return httpx.URL(base + path)
