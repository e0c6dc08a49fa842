"""Routes that run models, or say what would run."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from functools import cached_property

from fastapi import APIRouter, Request, Response
from torch import Tensor

from hetune.service.core.formats.container import LENGTH_BYTES, MOST_HEADER, Content
from hetune.service.core.formats.limits import check_limit
from hetune.service.core.formats.message import MEDIA_TYPE, Pieces, grouped
from hetune.service.core.graphs.rows import Rows
from hetune.service.core.inference.answers import Answer, Report
from hetune.service.core.inference.batching import Waiting
from hetune.service.core.inference.run_request import Asked
from hetune.service.core.service import Service
from hetune.service.http.body import JSON_TYPE, Media, limit_of, media_of
from hetune.service.http.parameters import ModelReference
from hetune.service.http.pieces import PiecesResponse
from hetune.service.http.routes.requests import (
    InferDocument,
    InferRequest,
    SelectDocument,
    read_deadline,
    read_infer,
    read_select,
)
from hetune.service.http.schema import gives, takes
from hetune.service.http.work import Work
from hetune.variants.errors import InputError

INFER = "/v1/models/{name}/infer"
"""Where models run."""
_BODIES = (Media.JSON, Media.SAFETENSORS)


class InferAnswer(Report):
    """What ran, and rows of its outputs: by the layer's number; of nodes, or by node type."""

    outputs: dict[str, list[list[float]] | dict[str, list[list[float]]]]


def endpoint(work: Work) -> Callable[[str, Request], Awaitable[Response]]:
    """What answers at `INFER`."""
    service = work.service

    async def infer(name: ModelReference, request: Request) -> Response:
        """Runs a model on a graph, by the variants that suit it."""
        arrived = time.monotonic()
        media = media_of(request, *_BODIES)
        wanted = _answered(request.headers.get("accept", ""), media)
        async with work.asked(request, limit_of(media, service.limits)) as body:
            given = _Given(service, name, media, body, arrived)
            early = given.seems_to_have_deadline()
            deadline = await asyncio.to_thread(given.deadline) if early else None
            with service.batching.waiting(name, given.asked, len(body)) as waiting:
                content = await work.compute(lambda: _infer(service, waiting, wanted), deadline)
        return PiecesResponse(content, wanted.value, work.computing)

    return infer


def router(work: Work) -> APIRouter:
    """The routes."""
    routes = APIRouter(tags=["inference"])
    service = work.service
    routes.post(
        INFER,
        openapi_extra=takes(InferDocument, safetensors=True),
        responses=gives(InferAnswer),
    )(endpoint(work))

    @routes.post(
        "/v1/models/{name}/select",
        openapi_extra=takes(SelectDocument, safetensors=True),
    )
    async def select(name: ModelReference, request: Request) -> Report:
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


class _Given:
    """A request, which is read once.

    Args:
        service: Where it has come.
        model: The name of the model that is to run.
        media: What it is.
        body: Its body.
        arrived: When it came, by `time.monotonic()`.
    """

    def __init__(
        self, service: Service, model: str, media: Media, body: Content, arrived: float
    ) -> None:
        self._service, self._model = service, model
        self._media, self._body, self._arrived = media, body, arrived

    def seems_to_have_deadline(self) -> bool:
        """Whether that has to be read before its turn."""
        document = self._body
        if self._media is Media.SAFETENSORS:
            length = int.from_bytes(document[:LENGTH_BYTES], "little")
            document = document[: LENGTH_BYTES + min(length, MOST_HEADER)]
        return b"deadline_seconds" in bytes(document)

    def deadline(self) -> float | None:
        """Time of `time.monotonic()` after which nobody waits for the answer; None if it says none.

        Raises:
            MalformedError: It cannot be read so far.
        """
        return self._until(read_deadline(self._media, self._body))

    def _until(self, seconds: float | None) -> float | None:
        return None if seconds is None else self._arrived + seconds

    @cached_property
    def _request(self) -> InferRequest:
        return read_infer(self._media, self._body, self._service.limits)

    def asked(self) -> Asked:
        """What it asks for."""
        request = self._request
        header = request.header
        description = self._service.models.get(self._model, header.version).description
        features = request.rows(description.in_channels)
        return Asked(
            request.graph,
            self._service.features.resolve(request.graph, features),
            version=header.version,
            nodes=request.nodes,
            subset=header.subset,
            outputs=header.outputs,
            variants=header.variants,
            memory_limit=header.memory_limit,
            explain=header.explain,
            deadline=self._until(header.deadline_seconds),
        )


def _infer(service: Service, waiting: Waiting, wanted: Media) -> bytes | Pieces:
    answer = service.batching.answer(waiting)
    if wanted is Media.JSON:
        return _as_json(answer, service.limits.json_elements)
    tensors: dict[str, Tensor] = {}
    for number, rows in answer.outputs.items():
        tensors |= grouped(f"out/{number}", rows)
    return Pieces(answer.report.model_dump_json(), tensors)


def _select(service: Service, name: str, media: Media, body: Content) -> Report:
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
