"""Routes that run models, or say what would run."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable

from fastapi import APIRouter, Request, Response
from torch import Tensor

from hetune.service.core.formats.container import LENGTH_BYTES, MOST_HEADER, Content
from hetune.service.core.formats.limits import check_limit
from hetune.service.core.formats.message import MEDIA_TYPE, Pieces, grouped
from hetune.service.core.graphs.rows import Rows
from hetune.service.core.inference.answers import Answer, RunReport
from hetune.service.core.service import Service
from hetune.service.http.body import JSON_TYPE, Media, limit_of, media_of
from hetune.service.http.dispatcher import Dispatcher
from hetune.service.http.parameters import MODEL_REFERENCE, ModelReference
from hetune.service.http.routes.requests import (
    InferDocument,
    SelectDocument,
    read_deadline,
    read_infer,
    read_select,
)
from hetune.service.http.schema import gives, takes
from hetune.service.http.streaming_response import PiecesResponse
from hetune.variants.errors import InputError

INFER = "/v1/models/{name}/infer"
"""Where models run."""
_BODIES = (Media.JSON, Media.SAFETENSORS)


class InferAnswer(RunReport):
    """What ran, and rows of its outputs: by the layer's number; of nodes, or by node type."""

    outputs: dict[str, list[list[float]] | dict[str, list[list[float]]]]


def endpoint(work: Dispatcher) -> Callable[[Request], Awaitable[Response]]:
    """What answers at `INFER`."""
    service = work.service

    async def infer(request: Request) -> Response:
        """Runs a model on a graph, by the variants that suit it."""
        arrived, name = time.monotonic(), str(request.path_params["name"])
        media = media_of(request, *_BODIES)
        wanted = _answered(request.headers.get("accept", ""), media)
        async with work.asked(request, limit_of(media, service.limits)) as body:
            deadline: float | None = None
            if _may_have_deadline(media, body):
                seconds = await asyncio.to_thread(read_deadline, media, body)
                deadline = None if seconds is None else arrived + seconds

            def answer() -> bytes | Pieces:
                found = read_infer(media, body, service.limits).run(service, name, arrived)
                return _written(found, wanted, service)

            content = await work.compute(answer, deadline)
        return PiecesResponse(content, wanted.value, work.computing)

    return infer


def router(work: Dispatcher) -> APIRouter:
    """The routes."""
    routes = APIRouter(tags=["inference"])
    service = work.service
    routes.post(
        INFER,
        openapi_extra=takes(InferDocument, safetensors=True) | {"parameters": [MODEL_REFERENCE]},
        responses=gives(InferAnswer),
    )(endpoint(work))

    @routes.post(
        "/v1/models/{name}/select",
        openapi_extra=takes(SelectDocument, safetensors=True),
    )
    async def select(name: ModelReference, request: Request) -> RunReport:
        """What would be chosen for a model on a graph, and why; nothing is run."""
        media = media_of(request, *_BODIES)
        async with work.asked(request, limit_of(media, service.limits)) as body:
            return await work.compute(lambda: _select(service, name, media, body))

    return routes


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


def _written(answer: Answer, wanted: Media, service: Service) -> bytes | Pieces:
    if wanted is Media.JSON:
        return _as_json(answer, service.limits.json_elements)
    tensors: dict[str, Tensor] = {}
    for number, rows in answer.outputs.items():
        tensors |= grouped(f"out/{number}", rows)
    return Pieces(answer.report.model_dump_json(), tensors)


def _select(service: Service, name: str, media: Media, body: Content) -> RunReport:
    header, graph = read_select(media, body, service.limits)
    return service.selection.select(
        name,
        graph,
        version=header.version,
        memory_limit=header.memory_limit,
        explain=header.explain,
    )


def _as_json(answer: Answer, most: int) -> bytes:
    parts = [t for rows in answer.outputs.values() for t in grouped("out", rows).values()]
    check_limit("numbers in JSON", sum(t.numel() for t in parts), most)
    outputs = {str(number): _lists(rows) for number, rows in answer.outputs.items()}
    document = answer.report.model_dump(mode="json") | {"outputs": outputs}
    try:
        return json.dumps(document, allow_nan=False, separators=(",", ":")).encode()
    except ValueError:
        raise InputError(
            "the result holds infinite numbers or none (NaN), which JSON cannot: ask for "
            f"'Accept: {MEDIA_TYPE}'"
        ) from None


def _lists(rows: Rows) -> object:
    if isinstance(rows, Tensor):
        return rows.tolist()
    return {name: tensor.tolist() for name, tensor in rows.items()}
