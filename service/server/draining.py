"""A service that was told to stop finishes what it has begun, and refuses the rest."""

from __future__ import annotations

import threading

from hetune.service.http.asgi import App, Receive, Scope, Send
from hetune.service.http.problems import stopping_problem

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
