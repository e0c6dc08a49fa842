"""Bodies that are being received: how fast they have to come, and how much of them is held."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

from fastapi import HTTPException, Request
from starlette.requests import ClientDisconnect

from hetune.service.core.formats.body_memory import BodyMemory, announced_bytes
from hetune.service.core.formats.limits import check_limit
from hetune.variants.errors import BusyError

START_SECONDS = 10.0
"""Until the first bytes of a body have to be there."""
LEAST_RATE = 4 << 10
"""Bytes of it that have to come in each second thereafter, on average."""
_KEPT = 8
"""The memory of a body that is kept for another is this part of what all may have, at most."""


class Bodies:
    """Bytes of bodies that are received, or whose requests are answered. For one event loop.

    What counts is what has come: who says that much will come, and sends nothing, keeps nobody out.

    Args:
        what: Whose.
        most: How many, all together; one body alone may have more.

    Attributes:
        memory: Where they are.
        total: How many there are now.
    """

    def __init__(self, what: str, most: float = math.inf) -> None:
        self._what, self._most = what, most
        self.memory = BodyMemory(most / _KEPT)
        self.total = 0

    @contextmanager
    def held(self) -> Iterator[Held]:
        """One more, whose bytes count until the end of the block."""
        found = Held(self)
        try:
            yield found
        finally:
            self.total -= found.size

    def check(self, more: int, own: int) -> None:
        """Checks that a body may have more bytes.

        Args:
            more: How many.
            own: What it has now.

        Raises:
            BusyError: Others have too many.
        """
        if self.total > own and self.total + more > self._most:
            raise BusyError(f"{self._what} hold {self.total} bytes: try again later")


class Held:
    """The bytes of one body."""

    def __init__(self, bodies: Bodies) -> None:
        self._bodies = bodies
        self.memory = bodies.memory
        self.size = 0

    def add(self, size: int) -> None:
        """So many have come.

        Raises:
            BusyError: Other bodies have too many.
        """
        self._bodies.check(size, self.size)
        self.size += size
        self._bodies.total += size

    def expect(self, size: int) -> None:
        """So many shall come.

        Raises:
            BusyError: Other bodies have too many for that.
        """
        self._bodies.check(size, self.size)


async def pieces(request: Request, held: Held, most: int, seconds: float) -> AsyncIterator[bytes]:
    """A body as it comes.

    Args:
        request: Whose.
        held: Counts it.
        most: Bytes that it may have.
        seconds: Until it has to be there.

    Raises:
        TooLargeError: It has more.
        BusyError: Other bodies hold too much.
        HTTPException: It comes too slowly (408).
        ClientDisconnect: It does not come any more.
    """
    check_limit("bytes of the body", announced_bytes(request.headers), most)
    held.expect(announced_bytes(request.headers))
    begun, total, more = asyncio.get_running_loop().time(), 0, True
    while more:
        allowed = min(seconds, START_SECONDS + total / LEAST_RATE)
        try:
            async with asyncio.timeout_at(begun + allowed):
                event = await request.receive()
        except TimeoutError:
            raise _too_slow(total, allowed, seconds) from None
        if event["type"] == "http.disconnect":
            raise ClientDisconnect
        piece, more = event.get("body", b""), event.get("more_body", False)
        total += len(piece)
        check_limit("bytes of the body", total, most)
        held.add(len(piece))
        yield piece


def _too_slow(total: int, allowed: float, seconds: float) -> HTTPException:
    why = f"the body was not there within {seconds:g} seconds"
    if allowed < seconds:
        why = (
            f"{total} bytes of the body came in {allowed:.3g} seconds: send the first within "
            f"{START_SECONDS:g} seconds, and {LEAST_RATE} in each second thereafter"
        )
    return HTTPException(408, why, {"Connection": "close"})
