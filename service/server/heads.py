"""HEAD: what GET answers, without its body."""

from __future__ import annotations

from hetune.service.http.asgi import App, Event, Receive, Scope, Send


class HeadRequests:
    """Lets requests for heads be answered as those by GET; sends no body.

    Args:
        app: What answers, which knows GET alone.
    """

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves an ASGI event."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return
        has_begun = False

        async def heard() -> Event:
            # A stream would go on: whoever wants the head alone has left when that is there.
            return {"type": "http.disconnect"} if has_begun else await receive()

        async def without_body(event: Event) -> None:
            nonlocal has_begun
            has_begun = True
            await send({**event, "body": b""} if event["type"] == "http.response.body" else event)

        asked = {**scope, "method": "GET"}
        try:
            await self._app(asked, heard, without_body)
        finally:
            scope.update({**asked, "method": "HEAD"})  # which route it led to
