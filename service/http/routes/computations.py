"""Routes that compute something of a body, JSON or safetensors, and answer in either form."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from fastapi import APIRouter, Request, Response

from hetune.service.core.formats.container import LENGTH_BYTES, MOST_HEADER, Content
from hetune.service.core.formats.documents import Document
from hetune.service.core.formats.message import MEDIA_TYPE, Pieces
from hetune.service.http.body import JSON_TYPE, Media, limit_of, media_of
from hetune.service.http.dispatcher import Dispatcher
from hetune.service.http.parameters import MODEL_REFERENCE
from hetune.service.http.routes.requests import read_deadline
from hetune.service.http.schema import gives, takes
from hetune.service.http.streaming_response import PiecesResponse
from hetune.variants.errors import InputError

BODIES = (Media.JSON, Media.SAFETENSORS)


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """What a model is to do.

    Attributes:
        model: The model's name, or ``name@alias``.
        media: What the body is.
        body: The body.
        answer: What to answer with.
        arrived: When the request came, by `time.monotonic()`.
    """

    model: str
    media: Media
    body: Content
    answer: Media
    arrived: float

    def deadline(self, seconds: float | None) -> float | None:
        """The time of `time.monotonic()` that is so many seconds after the request came."""
        return None if seconds is None else self.arrived + seconds


def add_computation(
    routes: APIRouter,
    work: Dispatcher,
    name: str,
    compute: Callable[[ModelRequest], bytes | Pieces],
    *,
    takes_in: type[Document],
    gives_out: type[Document],
    description: str,
) -> None:
    """Adds the route of what a model does: it is computed when the request's turn has come.

    Args:
        routes: Where to.
        work: Says whose turn it is.
        name: The end of its path.
        compute: Gives the answer, in the form that is asked for.
        takes_in: The body, where that is JSON.
        gives_out: The answer, likewise.
        description: For OpenAPI.
    """
    service = work.service

    async def respond(request: Request) -> Response:
        arrived, model = time.monotonic(), str(request.path_params["name"])
        media = media_of(request, *BODIES)
        wanted = _answered(request.headers.get("accept", ""), media)
        async with work.received(request, limit_of(media, service.limits)) as body:
            asked = ModelRequest(model, media, body, wanted, arrived)
            deadline: float | None = None
            if _may_have_deadline(media, body):
                deadline = asked.deadline(await asyncio.to_thread(read_deadline, media, body))
            content = await work.compute(partial(compute, asked), deadline)
        return PiecesResponse(content, wanted.value, work.computing)

    routes.post(
        f"/v1/models/{{name}}/{name}",
        name=name,
        description=description,
        openapi_extra=takes(takes_in, safetensors=True) | {"parameters": [MODEL_REFERENCE]},
        responses=gives(gives_out),
    )(respond)


def as_json(document: object) -> bytes:
    """A document as JSON.

    Raises:
        InputError: It holds numbers that JSON cannot.
    """
    try:
        return json.dumps(document, allow_nan=False, separators=(",", ":")).encode()
    except ValueError:
        raise InputError(
            "the result holds infinite numbers or none (NaN), which JSON cannot: ask for "
            f"'Accept: {MEDIA_TYPE}'"
        ) from None


def _answered(accept: str, media: Media) -> Media:
    """What to answer with: what is asked for, else what the request is."""
    types = {part.partition(";")[0].strip().lower() for part in accept.split(",")}
    if MEDIA_TYPE in types:
        return Media.SAFETENSORS
    return Media.JSON if JSON_TYPE in types else media


def _may_have_deadline(media: Media, body: Content) -> bool:
    """Whether a deadline has to be read before the request's turn."""
    if media is Media.SAFETENSORS:
        length = int.from_bytes(body[:LENGTH_BYTES], "little")
        body = body[: LENGTH_BYTES + min(length, MOST_HEADER)]
    return b"deadline_seconds" in bytes(body)
