"""A large answer, sent piece by piece: neither copied as a whole, nor sent faster than read."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.responses import Response

from hetune.service.core.formats.message import Pieces, in_pieces
from hetune.service.http.asgi import Receive, Scope, Send
from hetune.service.http.gate import Gate


class PiecesResponse(Response):
    """A container of tensors, or bytes, which have to stay as they are until they are sent.

    Args:
        content: What is sent.
        media_type: What it is.
        gate: Which knows of it while it is sent.
        headers: Beside its length.
    """

    def __init__(
        self,
        content: Pieces | bytes,
        media_type: str,
        gate: Gate,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._content, self._gate = content, gate
        sized = {"Content-Length": str(len(content)), **(headers or {})}
        super().__init__(None, headers=sized, media_type=media_type)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends it."""
        await send(
            {
                "type": "http.response.start",
                "status": self.status_code,
                "headers": self.raw_headers,
            }
        )
        content = self._content
        with self._gate.keeping(len(content)):
            for piece in in_pieces([content]) if isinstance(content, bytes) else content:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            # Pieces hold all of their tensors: the end waits until the last one is taken, too.
            await send({"type": "http.response.body", "body": b""})
