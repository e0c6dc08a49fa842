"""Bodies of requests: their type, and their bytes up to a limit and within a time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from fastapi import HTTPException, Request

from hetune.service.core.formats import arrow_stream, message
from hetune.service.core.formats.body_memory import ReceivedBody, announced_bytes
from hetune.service.core.formats.container import Content
from hetune.service.core.formats.limits import ServiceLimits
from hetune.service.http.receiving import Held, pieces

JSON_TYPE = "application/json"
SMALL_BYTES = 64 << 10
"""Of a JSON body that says a few words, whatever the limit of others."""
_CHUNK = 1 << 20


class Media(Enum):
    """What a body is."""

    JSON = JSON_TYPE
    SAFETENSORS = message.MEDIA_TYPE
    ARROW = arrow_stream.MEDIA_TYPE


@dataclass(frozen=True, slots=True)
class Upload:
    """A body on disk.

    Attributes:
        media: What it is.
        path: Where it is.
    """

    media: Media
    path: Path


def media_of(request: Request, *allowed: Media) -> Media:
    """What a request says that its body is.

    Raises:
        HTTPException: Nothing (415), or something else, or that it is compressed.
    """
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if given == "application/octet-stream":
        given = message.MEDIA_TYPE
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise HTTPException(415, "send the body uncompressed")
    for media in allowed:
        if media.value == given:
            return media
    raise HTTPException(415, f"send {' or '.join(m.value for m in allowed)} as Content-Type")


def limit_of(media: Media, limits: ServiceLimits) -> int:
    """The most bytes of a body."""
    return limits.json_bytes if media is Media.JSON else limits.body_bytes


async def read(request: Request, held: Held, most: int, limits: ServiceLimits) -> Content:
    """A body in memory, which is whoever's asks for it.

    Args:
        request: Whose.
        held: Counts it, as long as it is used.
        most: Bytes that it may have.
        limits: Of its time.

    Raises:
        TooLargeError: It has more.
        BusyError: Other bodies hold too much.
        HTTPException: It comes too slowly (408).
    """
    body = ReceivedBody(held.memory, announced_bytes(request.headers))
    async for piece in pieces(request, held, most, limits.body_seconds):
        body.add(piece)
    return body.content


async def chunks(
    request: Request, held: Held, most: int, limits: ServiceLimits
) -> AsyncIterator[bytes]:
    """A body in pieces of about a megabyte.

    Args:
        request: Whose.
        held: Counts it.
        most: Bytes that it may have.
        limits: Of its time.

    Raises:
        TooLargeError: It has more.
        BusyError: Other bodies hold too much.
        HTTPException: It comes too slowly (408).
    """
    buffer = bytearray()
    async for chunk in pieces(request, held, most, limits.body_seconds):
        buffer += chunk
        if len(buffer) >= _CHUNK:
            yield bytes(buffer)
            buffer.clear()
    yield bytes(buffer)
