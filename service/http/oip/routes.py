"""The routes of the protocol."""

from __future__ import annotations

from fastapi import APIRouter

from hetune.service.http.body import JSON_TYPE
from hetune.service.http.dispatcher import Dispatcher
from hetune.service.http.oip.documents import ProtocolError
from hetune.service.http.oip.models import all_statistics, latest, model_routes, numbered
from hetune.service.http.oip.repository import repository_routes
from hetune.service.http.oip.server import server_routes
from hetune.service.http.oip.statistics import Statistics
from hetune.service.http.schema import fails


def router(work: Dispatcher) -> APIRouter:
    """The routes."""
    routes = APIRouter(
        tags=["Open Inference Protocol"],
        responses=fails(ProtocolError, JSON_TYPE),
    )
    counters, models = Statistics(), work.service.models
    routes.include_router(server_routes(work.service))
    routes.include_router(repository_routes(work))
    routes.include_router(all_statistics(models, counters))
    routes.include_router(model_routes(work, counters, latest(models)), prefix="/v2/models/{name}")
    routes.include_router(
        model_routes(work, counters, numbered(models)),
        prefix="/v2/models/{name}/versions/{version}",
    )
    return routes
