"""Connections of clients: who is slow with the head of a request is not waited for."""

from __future__ import annotations

import asyncio
from typing import cast

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 20.0
"""Until a head has to be there, from its first byte or from the connection's beginning."""


class Connection(H11Protocol):
    """uvicorn's, which waits for a head for as long as some byte of it comes, or none at all.

    Bodies have a time of their own, which begins when a route reads one. What is left of a body
    after its answer counts as a head.
    """

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begins to wait."""
        super().connection_made(cast(asyncio.Transport, transport))  # uvloop's is none by class
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Waits on, unless a request is being answered now."""
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Waits no more."""
        self._stop()
        super().connection_lost(exc)

    @property
    def _is_serving(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _watch(self) -> None:
        if self._is_serving or self.transport.is_closing():
            self._stop()
        elif self._timer is None:
            self._timer = self.loop.call_later(HEAD_SECONDS, self._end)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end(self) -> None:
        self._timer = None
        if not self._is_serving:
            self.transport.close()
