"""The application: routes, and what wraps them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from fastapi import APIRouter, FastAPI

import hetune
from hetune.profiling.workers.activity import Activity
from hetune.service.core.formats.documents import Document
from hetune.service.core.graphs.document import GraphDocument
from hetune.service.core.graphs.edit import EditDocument
from hetune.service.core.jobs.documents import JobRequest
from hetune.service.core.keys.access import Access
from hetune.service.core.models.description import ModelDescription
from hetune.service.core.runs.documents import RunRequest
from hetune.service.core.service import Service
from hetune.service.http.asgi import App
from hetune.service.http.dispatcher import Dispatcher
from hetune.service.http.oip import routes as oip
from hetune.service.http.oip.documents import (
    IndexRequest,
    InferenceRequest,
    InferenceResponse,
    LoadRequest,
    ProtocolError,
)
from hetune.service.http.problems import MEDIA_TYPE, ProblemDetails, add_handlers
from hetune.service.http.routes import (
    catalogue,
    cost_models,
    features,
    graphs,
    inference,
    jobs,
    metrics,
    models,
    runs,
    scores,
)
from hetune.service.http.routes.access_schema import add_security
from hetune.service.http.routes.examples import EXAMPLES
from hetune.service.http.routes.models import NamedVersion
from hetune.service.http.routes.requests import FeaturesDocument, InferDocument, SelectDocument
from hetune.service.http.routes.scores import ScoreDocument, TopDocument
from hetune.service.http.schema import add_examples, add_schemas, fails
from hetune.service.pages import routes as pages
from hetune.service.pages.sessions import Sessions
from hetune.service.server.background import follow, perform_runs, sample_regret
from hetune.service.server.guard import Guard
from hetune.service.server.middleware import Middleware
from hetune.service.server.tracing import RequestTracing

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer


class Health(Document):
    """How the service is."""

    status: str


def application(
    service: Service,
    *,
    key: str | None = None,
    hosts: Collection[str] | None = None,
    stopping: threading.Event | None = None,
    activity: Activity | None = None,
    tracer: Tracer | None = None,
) -> App:
    """The service over HTTP, as an ASGI application.

    Args:
        service: What it serves.
        key: One that allows everything, beside those in the service's folder; None for none.
            Without any, everybody is let in.
        hosts: Names that requests may call the service by; any if None.
        stopping: As `Dispatcher.of` takes it.
        activity: Likewise.
        tracer: Makes spans of requests; None for none.
    """
    stopping = stopping or threading.Event()
    access = Access(service.keys, key)
    sessions = Sessions(access.is_good, lambda: access.is_open)
    work = Dispatcher.of(service, stopping, activity)
    app = routes(work, sessions)
    if not access.is_open:
        add_security(app)
    guard = Guard(access, hosts, sessions, stopping)
    found = Middleware(app, guard, service.metrics, stopping)
    return found if tracer is None else RequestTracing(found, tracer)


def routes(work: Dispatcher, sessions: Sessions | None = None) -> FastAPI:
    """The routes alone."""
    service = work.service

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        beside = (
            follow(service.follower),
            sample_regret(work),
            perform_runs(work),
            asyncio.to_thread(service.warm_up.run),
        )
        tasks = [asyncio.create_task(coroutine) for coroutine in beside]
        yield
        service.warm_up.stop()
        for task in tasks:
            task.cancel()
        work.close()

    app = FastAPI(
        title="hetune",
        version=hetune.__version__,
        summary="Relational GNN layers, each run by the compiled variant that suits the graph",
        openapi_url="/v1/openapi.json",
        docs_url=None,  # its page would load scripts from elsewhere
        redoc_url=None,
        lifespan=lifespan,
        # Requests are traced and counted here, without what clients send.
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    add_handlers(app)
    for part in (
        inference.router(work),  # routes are looked up in this order
        scores.router(work),
        _health(service),
        graphs.router(work),
        features.router(work),
        models.router(work),
        runs.router(work),
        jobs.router(work),
        cost_models.router(work),
        catalogue.router(work),
        metrics.router(service.metrics),
        *pages.routers(work, sessions or Sessions.of_open_service()),
    ):
        app.include_router(part, responses=fails(ProblemDetails, MEDIA_TYPE))
    app.include_router(oip.router(work))
    add_schemas(
        app,
        *(GraphDocument, EditDocument, ModelDescription, JobRequest, RunRequest, ProblemDetails),
        *(FeaturesDocument, InferDocument, SelectDocument, ScoreDocument, TopDocument),
        *(InferenceRequest, InferenceResponse, IndexRequest, LoadRequest, ProtocolError),
        NamedVersion,
    )
    add_examples(app, EXAMPLES)
    return app


def _health(service: Service) -> APIRouter:
    routes = APIRouter(prefix="/v1/health", tags=["health"])

    @routes.get("/live")
    async def live() -> Health:
        """Whether the process answers."""
        return Health(status="live")

    @routes.get("/ready")
    def ready() -> Health:
        """Whether requests can be served: models are loaded, and the folder can be written."""
        service.check_ready()
        return Health(status="ready")

    usual = APIRouter(tags=["health"])
    usual.add_api_route("/healthz", live)
    usual.add_api_route("/readyz", ready)
    usual.include_router(routes)
    return usual
