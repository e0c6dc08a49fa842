"""Refuses ambiguous requests, and those to a service that stops."""

from __future__ import annotations

import threading

from hetune.service.http.asgi import App, Receive, Scope, Send
from hetune.service.http.problems import routing_problem, stopping_problem

_BOTH = {b"content-length", b"transfer-encoding"}
_SINGLE = (b"origin", b"sec-fetch-site", b"content-type")
"""Of two, `header` would see none. So it does of two keys or cookies, which let nobody in."""
_BAD = 400
STILL_ANSWERED = frozenset({"/healthz", "/v1/health/live", "/v2/health/live"})
"""Who stops is alive, but not ready any more."""


class Draining:
    """Refuses requests from when the service is told to stop.

    Args:
        app: What answers until then.
        stopping: Set when the service is told.
    """

    def __init__(self, app: App, stopping: threading.Event) -> None:
        self._app, self._stopping = app, stopping

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves an ASGI event."""
        is_refused = (
            scope["type"] == "http"
            and self._stopping.is_set()
            and scope["path"] not in STILL_ANSWERED
        )
        if not is_refused:
            await self._app(scope, receive, send)
            return
        await stopping_problem(scope)(scope, receive, send)


class AmbiguityCheck:
    """Refuses requests that two programs may read differently, so that a proxy's view is ours.

    They say two things at once, or not what they must; their connections end.

    That is: the length of the body twice, two hosts or none, two of another header that says who
    asks or what is sent, and a line without a version.

    Args:
        app: What answers all others.
    """

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves an ASGI event."""
        wrong = _wrong(scope) if scope["type"] == "http" else None
        if wrong is None:
            await self._app(scope, receive, send)
            return
        refusal = routing_problem(_BAD, wrong, scope)
        refusal.headers["Connection"] = "close"
        await refusal(scope, receive, send)


def _wrong(scope: Scope) -> str | None:
    names = [name for name, _ in scope["headers"]]
    version, hosts = scope.get("http_version", "1.1"), names.count(b"host")
    if version == "0.9":
        return "send a request line that ends in HTTP/1.1"
    if hosts > 1 or (hosts == 0 and version != "1.0"):
        return "give one Host"
    for name in _SINGLE:
        if names.count(name) > 1:
            return f"give one {name.decode().title()}"
    if _BOTH.issubset(names):
        return "give Content-Length or Transfer-Encoding, not both"
    return None
