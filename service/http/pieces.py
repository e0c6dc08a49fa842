"""An answer that is sent piece by piece, so that its tensors are never copied as a whole."""

from __future__ import annotations

from starlette.responses import Response

from hetune.service.core.message import Pieces
from hetune.service.http.asgi import Receive, Scope, Send


class PiecesResponse(Response):
    """A container of tensors, which have to stay as they are until it is sent.

    Args:
        pieces: The container.
        media_type: What it is.
    """

    def __init__(self, pieces: Pieces, media_type: str) -> None:
        self._pieces = pieces
        headers = {"Content-Length": str(len(pieces))}
        super().__init__(None, headers=headers, media_type=media_type)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends it."""
        await send(
            {
                "type": "http.response.start",
                "status": self.status_code,
                "headers": self.raw_headers,
            }
        )
        sent = 0
        for piece in self._pieces:
            sent += len(piece)
            more = sent < len(self._pieces)
            await send({"type": "http.response.body", "body": piece, "more_body": more})
