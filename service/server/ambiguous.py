"""Requests that two programs may read differently: refused, so that a proxy's view is ours."""

from __future__ import annotations

from hetune.service.http.asgi import App, Receive, Scope, Send
from hetune.service.http.problems import routing_problem

_BOTH = {b"content-length", b"transfer-encoding"}
_SINGLE = (b"origin", b"sec-fetch-site", b"content-type")
"""Of two, `header` would see none. So it does of two keys or cookies, which let nobody in."""
_BAD = 400


class Unambiguous:
    """Refuses requests that say two things at once, or not what they must; ends their connections.

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
