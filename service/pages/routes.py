"""All pages."""

from __future__ import annotations

from fastapi import APIRouter

from hetune.service.http.dispatcher import Dispatcher
from hetune.service.pages import (
    cost_model_routes,
    graph_routes,
    home_routes,
    job_routes,
    model_routes,
    playground,
)
from hetune.service.pages.sessions import Sessions


def routers(work: Dispatcher, sessions: Sessions) -> tuple[APIRouter, ...]:
    """The routes of pages. They are for browsers, and no part of the API's description."""
    return (
        home_routes.router(work, sessions),
        graph_routes.router(work),
        model_routes.router(work),
        job_routes.router(work),
        cost_model_routes.router(work),
        playground.router(work),
    )
