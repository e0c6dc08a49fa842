"""The application: routes, and what wraps them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

from fastapi import APIRouter, FastAPI

import hetune
from hetune.profiling.jobs.activity import Activity
from hetune.service.core.access import Access
from hetune.service.core.description import ModelDescription
from hetune.service.core.documents import Document
from hetune.service.core.graph_document import GraphDocument
from hetune.service.core.job_documents import JobRequest
from hetune.service.core.keys import FILE, Keys
from hetune.service.core.service import Service
from hetune.service.http import cost_models, graphs, inference, jobs, metrics, models
from hetune.service.http.asgi import App
from hetune.service.http.following import follow
from hetune.service.http.layers import Failures, Guard, RequestIds, sessions_of
from hetune.service.http.observe import Observed
from hetune.service.http.oip import routes as oip
from hetune.service.http.oip.documents import InferenceRequest
from hetune.service.http.problems import add_handlers
from hetune.service.http.requests import InferDocument, SelectDocument
from hetune.service.http.schema import add_schemas
from hetune.service.http.work import Work
from hetune.service.pages import routes as pages
from hetune.service.pages.sessions import Sessions


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
) -> App:
    """The service over HTTP, as an ASGI application.

    Args:
        service: What it serves.
        key: One that allows everything, beside those in the service's folder; None for none.
            Without any, everybody is let in.
        hosts: Names that requests may call the service by; any if None.
        stopping: As `Work.of` takes it.
        activity: Likewise.
    """
    access = Access(Keys(service.folder.root / FILE), key)
    sessions = sessions_of(access)
    app = routes(service, stopping, activity, sessions)
    guarded = Failures(Guard(app, access, hosts, sessions))
    return RequestIds(Observed(guarded, service.metrics))


def routes(
    service: Service,
    stopping: threading.Event | None = None,
    activity: Activity | None = None,
    sessions: Sessions | None = None,
) -> FastAPI:
    """The routes alone."""
    work = Work.of(service, stopping, activity)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        following = asyncio.create_task(follow(service.following))
        yield
        following.cancel()
        work.close()

    app = FastAPI(
        title="hetune",
        version=hetune.__version__,
        summary="Relational GNN layers, each run by the compiled variant that suits the graph",
        openapi_url="/v1/openapi.json",
        docs_url=None,  # its page would load scripts from elsewhere
        redoc_url=None,
        lifespan=lifespan,
    )
    add_handlers(app)
    for part in (
        _health(service),
        graphs.router(work),
        models.router(work),
        inference.router(work),
        jobs.router(work),
        cost_models.router(work),
        oip.router(work),
        metrics.router(service.metrics),
        *pages.routers(work, sessions or Sessions.of_open_service()),
    ):
        app.include_router(part)
    add_schemas(
        app,
        *(GraphDocument, ModelDescription, InferDocument, SelectDocument),
        *(InferenceRequest, JobRequest),
    )
    return app


def _health(service: Service) -> APIRouter:
    routes = APIRouter(prefix="/v1/health", tags=["health"])

    @routes.get("/live")
    async def live() -> Health:
        """Whether the process answers."""
        return Health(status="live")

    @routes.get("/ready")
    def ready() -> Health:
        """Whether requests can be served: the folder can be written."""
        service.check_ready()
        return Health(status="ready")

    return routes
