"""Bodies of the protocol's requests. Their Content-Type says nothing: some clients send none."""

from __future__ import annotations

import asyncio

from fastapi import HTTPException, Request

from hetune.service.core.formats.limits import ServiceLimits
from hetune.service.http.asgi import header
from hetune.service.http.body import chunks
from hetune.service.http.oip.compression import CODINGS, Coding, Decompressor
from hetune.service.http.receiving import Held

_LENGTH = b"inference-header-content-length"


def json_length(request: Request) -> str | None:
    """The header that gives the length of a body's JSON, if tensors follow it."""
    return header(request.scope, _LENGTH)


async def read_body(request: Request, held: Held, limits: ServiceLimits) -> bytearray:
    """A body, decompressed. It is JSON alone unless its length is given.

    Args:
        request: Whose.
        held: Counts it, as it comes and decompressed, as long as it is used.
        limits: What is accepted.

    Raises:
        TooLargeError: It is over the limit of its kind, sent or decompressed.
        BusyError: Other bodies hold too much.
        MalformedError: It is not compressed as it says.
        HTTPException: By something else (415); or it comes too slowly (408).
    """
    coding = _coding(request)
    limit = limits.json_bytes if json_length(request) is None else limits.body_bytes
    content = bytearray()
    decompressor = None if coding is None else Decompressor(coding, limit)
    async for chunk in chunks(request, held, limit, limits):
        if decompressor is None:
            content += chunk
        else:
            before = len(decompressor.content)
            await asyncio.to_thread(decompressor.feed, chunk)
            held.add(len(decompressor.content) - before)
    return content if decompressor is None else decompressor.finish()


def _coding(request: Request) -> Coding | None:
    given = request.headers.get("content-encoding", "").strip().lower()
    for coding in CODINGS:
        if given == coding:
            return coding
    if given in ("", "identity"):
        return None
    raise HTTPException(415, f"send the body compressed by {' or '.join(CODINGS)}, or as it is")
