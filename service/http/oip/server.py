"""Routes about the server."""

from __future__ import annotations

from fastapi import APIRouter

import hetune
from hetune.service.core.service import Service
from hetune.service.http.oip.documents import ServerLive, ServerMetadata, ServerReady

_EXTENSIONS = ("binary_tensor_data", "model_configuration", "model_repository", "statistics")


def server_routes(service: Service) -> APIRouter:
    """The routes."""
    routes = APIRouter(prefix="/v2")

    @routes.get("/", include_in_schema=False)
    @routes.get("")
    async def server_metadata() -> ServerMetadata:
        """The server, its version, and the extensions of the protocol that it has."""
        return ServerMetadata(name="hetune", version=hetune.__version__, extensions=_EXTENSIONS)

    @routes.get("/health/live")
    async def server_live() -> ServerLive:
        """Whether the process answers."""
        return ServerLive(live=True)

    @routes.get("/health/ready")
    def server_ready() -> ServerReady:
        """Whether requests can be served."""
        service.check_ready()
        return ServerReady(ready=True)

    return routes
