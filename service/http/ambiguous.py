"""Requests that two programs may read differently: refused, so that a proxy's view is ours."""

from __future__ import annotations

from hetune.service.http.asgi import App, Receive, Scope, Send
from hetune.service.http.problems import routing_problem

_BOTH = {b"content-length", b"transfer-encoding"}
_BAD = 400


class Unambiguous:
    """Refuses a request that gives the length of its body twice, and ends its connection.

    Args:
        app: What answers all others.
    """

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves an ASGI event."""
        if scope["type"] != "http" or not _is_ambiguous(scope):
            await self._app(scope, receive, send)
            return
        refusal = routing_problem(_BAD, "give Content-Length or Transfer-Encoding, not both", scope)
        refusal.headers["Connection"] = "close"
        await refusal(scope, receive, send)


def _is_ambiguous(scope: Scope) -> bool:
    return _BOTH.issubset(name for name, _ in scope["headers"])
