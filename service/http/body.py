"""Bodies of requests: their type, and their bytes up to a limit and within a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import numpy as np
from fastapi import HTTPException, Request
from starlette.requests import ClientDisconnect

from hetune.service.core import arrow_stream, message
from hetune.service.core.container import Content
from hetune.service.core.limits import Limits, check_limit
from hetune.service.core.service import Service

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


def size_of(request: Request, limits: Limits) -> int:
    """The most bytes that a body takes: what it says, unless it does not or is compressed."""
    length = None if "content-encoding" in request.headers else _length_of(request)
    return limits.body_bytes if length is None else length


async def read(request: Request, media: Media, limits: Limits) -> Content:
    """A body in memory, which is whoever's asks for it.

    Raises:
        TooLargeError: It is over the limit of its type.
        HTTPException: It takes too long (408).
    """
    limit = _limit(media, limits)
    announced = _announced(request, limit)
    async with in_time(limits):
        chunk, more = await _received(request)
        check_limit("bytes of the body", len(chunk), limit)
        if not more:
            return memoryview(bytearray(chunk))
        # What is announced is taken at once: memory that is never written to costs nothing, and
        # NumPy's is in huge pages where it is large, which spares most of the page faults.
        body, end = np.empty(announced or _CHUNK, dtype=np.uint8), 0
        while True:
            first, end = end, end + len(chunk)
            check_limit("bytes of the body", end, limit)
            if end > body.size:
                body = np.concatenate((body, np.empty(end, dtype=np.uint8)))
            body[first:end] = np.frombuffer(chunk, dtype=np.uint8)
            if not more:
                return body[:end].data
            chunk, more = await _received(request)


async def _received(request: Request) -> tuple[bytes, bool]:
    """The next piece of a body, and whether there is more."""
    event = await request.receive()
    if event["type"] == "http.disconnect":
        raise ClientDisconnect
    return event.get("body", b""), event.get("more_body", False)


@asynccontextmanager
async def received(request: Request, service: Service, *allowed: Media) -> AsyncIterator[Upload]:
    """A body in a file of its own, which goes in the end.

    Raises:
        TooLargeError: It is over the limit of its type.
        HTTPException: Its type is none of those allowed (415), or it takes too long (408).
        FolderError: It cannot be written.
    """
    media = media_of(request, *allowed)
    with service.folder.staged() as path:
        with path.open("xb") as file:
            path.chmod(0o600)
            async with in_time(service.limits):
                async for chunk in chunks(request, _limit(media, service.limits)):
                    await asyncio.to_thread(file.write, chunk)
        yield Upload(media, path)


@asynccontextmanager
async def in_time(limits: Limits) -> AsyncIterator[None]:
    """Ends what is in it when a body takes too long.

    Raises:
        HTTPException: It does (408).
    """
    try:
        async with asyncio.timeout(limits.body_seconds):
            yield
    except TimeoutError:
        raise HTTPException(
            408,
            f"the body was not there within {limits.body_seconds:g} seconds",
            {"Connection": "close"},
        ) from None


async def chunks(request: Request, limit: int) -> AsyncIterator[bytes]:
    """A body in pieces of about a megabyte.

    Raises:
        TooLargeError: It is over the limit.
    """
    _announced(request, limit)
    total, buffer = 0, bytearray()
    async for chunk in request.stream():
        total += len(chunk)
        check_limit("bytes of the body", total, limit)
        buffer += chunk
        if len(buffer) >= _CHUNK:
            yield bytes(buffer)
            buffer.clear()
    yield bytes(buffer)


def _limit(media: Media, limits: Limits) -> int:
    return limits.json_bytes if media is Media.JSON else limits.body_bytes


def _announced(request: Request, limit: int) -> int:
    """The length that a body says it has; 0 if it does not."""
    length = _length_of(request) or 0
    check_limit("bytes of the body", length, limit)
    return length


def _length_of(request: Request) -> int | None:
    announced = request.headers.get("content-length", "")
    return int(announced) if announced.isdecimal() else None
