"""Routes of the repository: which models there are, and which of them are in memory."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from fastapi import APIRouter, Request, Response

from hetune.service.core.formats.documents import D, parse
from hetune.service.core.models.models import ModelStore
from hetune.service.http.body import SMALL_BYTES
from hetune.service.http.dispatcher import Dispatcher
from hetune.service.http.oip.body import read_body
from hetune.service.http.oip.documents import IndexEntry, IndexRequest, LoadRequest
from hetune.service.http.parameters import ModelName
from hetune.service.http.schema import takes
from hetune.variants.errors import InputError

_HELD, _ON_DEMAND = "in memory", "on disk: loaded when it is asked for"


def repository_routes(work: Dispatcher) -> APIRouter:
    """The routes."""
    routes = APIRouter(prefix="/v2/repository")
    models = work.service.models
    small = replace(work.service.limits, json_bytes=SMALL_BYTES, body_bytes=SMALL_BYTES)

    async def read(kind: type[D], request: Request) -> D:
        work.computing.check()
        with work.bodies.held() as held:
            body = bytes(await read_body(request, held, small)) or b"{}"
            return await asyncio.to_thread(parse, kind, body)

    @routes.post("/index", openapi_extra=takes(IndexRequest, required=False))
    async def index(request: Request) -> tuple[IndexEntry, ...]:
        """All versions of all models. Every one of them is ready."""
        await read(IndexRequest, request)
        with work.computing.entered():
            return await work.compute(lambda: _index(models))

    @routes.post(
        "/models/{name}/load",
        response_class=Response,
        openapi_extra=takes(LoadRequest, required=False),
    )
    async def load(name: ModelName, request: Request) -> Response:
        """Takes a model's latest version into memory, so that the next request need not."""
        asked = await read(LoadRequest, request)
        if asked.parameters:
            raise InputError("load takes no parameters: a model's configuration is its own")
        with work.computing.entered():
            await work.compute(lambda: models.get(name))
        return Response(status_code=200)

    @routes.post(
        "/models/{name}/unload",
        response_class=Response,
        openapi_extra=takes(LoadRequest, required=False),
    )
    async def unload(name: ModelName, request: Request) -> Response:
        """Lets go of a model in memory. It can be run still, and is loaded again then."""
        await read(LoadRequest, request)
        with work.computing.entered():
            await work.compute(lambda: models.unload(name))
        return Response(status_code=200)

    return routes


def _index(models: ModelStore) -> tuple[IndexEntry, ...]:
    return tuple(
        IndexEntry(
            name=name,
            version=str(version),
            state="READY",
            reason=_HELD if models.is_loaded(name, version) else _ON_DEMAND,
        )
        for name in models.names()
        for version in models.versions(name)
    )
