"""Pages of cost models."""

from __future__ import annotations

from urllib.parse import quote

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from hetune.service.http.dispatcher import Dispatcher
from hetune.service.pages.cards import html_of
from hetune.service.pages.forms import read_form
from hetune.service.pages.render import page

_SEE_OTHER = 303
_MOST_CHANGES = 50
_PICTURE_HEADERS = {"Cache-Control": "private, max-age=3600", "X-Content-Type-Options": "nosniff"}


def router(work: Dispatcher) -> APIRouter:
    """The routes."""
    routes = APIRouter(prefix="/ui/cost-models", include_in_schema=False)
    service = work.service
    models = service.cost_models

    @routes.get("")
    def list_cost_models(request: Request) -> Response:
        """All cost models, and what became of them."""
        found = models.list()
        return page(
            request,
            "cost_models",
            found=found,
            history=found.history[::-1][:_MOST_CHANGES],
        )

    @routes.post("/rollback")
    def roll_back() -> Response:
        """Makes the champion before the present one the champion again."""
        models.rollback()
        return RedirectResponse("/ui/cost-models", _SEE_OTHER)

    @routes.get("/{id}")
    def show_cost_model(id: str, request: Request) -> Response:
        """A cost model: its card."""
        model = models.get(id)
        text = models.card_text(model.id)
        card = None if text is None else html_of(text, f"/ui/cost-models/{quote(model.id)}")
        champion = models.list().champion
        return page(request, "cost_model", model=model, card=card, champion=champion)

    @routes.get("/{id}/pictures/{name}")
    def picture(id: str, name: str) -> Response:
        """A picture of the card."""
        return Response(models.picture(id, name), media_type="image/png", headers=_PICTURE_HEADERS)

    @routes.post("/{id}/promote")
    async def promote(id: str, request: Request) -> Response:
        """Makes a cost model the champion, unless it loses to the present one."""
        machine = (await read_form(request, service.limits)).text("machine") or None
        with work.changing.entered():
            await work.change_in_database(lambda: models.promote(id, machine))
        return RedirectResponse("/ui/cost-models", _SEE_OTHER)

    return routes
