"""The route of metrics."""

from __future__ import annotations

from fastapi import APIRouter, Response
from fastapi.responses import PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from hetune.service.core.inference.metrics import Metrics


def router(metrics: Metrics) -> APIRouter:
    """The routes."""
    routes = APIRouter(tags=["operation"])

    @routes.get("/metrics", response_class=PlainTextResponse)
    def read_metrics() -> Response:
        """What Prometheus collects, in its text format."""
        return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_LATEST)

    return routes
