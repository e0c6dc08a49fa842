"""Routes of cost models."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from hetune.service.core.cost_models.documents import (
    CostModelDocument,
    CostModelList,
    PromotedModel,
    RolledBack,
)
from hetune.service.http.dispatcher import Dispatcher

_PAGE_HEADERS = {
    # Styles and pictures that the page itself holds, and nothing else, from nowhere.
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'; sandbox"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


def router(work: Dispatcher) -> APIRouter:
    """The routes."""
    routes = APIRouter(prefix="/v1/cost-models", tags=["cost models"])
    models = work.service.cost_models

    @routes.get("")
    def list_cost_models() -> CostModelList:
        """All cost models, which of them are candidate and champion, and the history of that."""
        return models.list()

    @routes.post("/rollback")
    def roll_back() -> RolledBack:
        """Makes the champion before the present one the champion again."""
        return models.rollback()

    @routes.get("/{id}")
    def get_cost_model(id: str) -> CostModelDocument:
        """A cost model, by id or alias."""
        return models.get(id)

    @routes.get(
        "/{id}/card",
        response_class=Response,
        responses={200: {"content": {"text/html": {"schema": {"type": "string"}}}}},
    )
    def cost_model_card(id: str) -> Response:
        """The page about a cost model: how it was judged, and what it was trained on."""
        return Response(models.card(id), media_type="text/html", headers=_PAGE_HEADERS)

    @routes.post("/{id}/promote")
    async def promote(
        id: str, machine: Annotated[str | None, Query(min_length=1, max_length=200)] = None
    ) -> PromotedModel:
        """Makes a cost model the champion, unless it loses to the present one."""
        with work.changing.entered():
            return await work.change_in_database(lambda: models.promote(id, machine))

    return routes
