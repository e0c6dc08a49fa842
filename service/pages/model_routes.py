"""Pages of models: their layers, and which variants are chosen for a graph."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import RedirectResponse

from hetune.service.core.models.models import Model
from hetune.service.http.dispatcher import Dispatcher
from hetune.service.pages.forms import read_form
from hetune.service.pages.render import page
from hetune.service.pages.variant_times import (
    MOST_VARIANTS,
    RUNS,
    SECONDS,
    LayerView,
    layer_views,
    measure,
)
from hetune.variants.errors import InputError, MemoryLimitError

_SEE_OTHER = 303
_LARGEST = 2**31 - 1
_MOST_GRAPHS = 200
_SHOWN_APART = {"layer", "out_channels", "activation"}
Version = Annotated[int | None, Query(ge=1, le=_LARGEST)]


def router(work: Dispatcher) -> APIRouter:
    """The routes."""
    routes = APIRouter(prefix="/ui/models", include_in_schema=False)
    service = work.service
    models = service.models

    @routes.get("")
    def list_models(request: Request) -> Response:
        """All models, their versions, and which of these are in memory."""
        found = {
            name: {version: models.is_loaded(name, version) for version in models.versions(name)}
            for name in models.names()
        }
        return page(request, "models", models=found)

    @routes.get("/{name}")
    async def show_model(
        name: str, request: Request, version: Version = None, graph: str = ""
    ) -> Response:
        """A version's layers; for a graph also which variants are chosen, and why."""
        number = models.versions(name)[-1] if version is None else version
        was_loaded = models.is_loaded(name, number)

        def look() -> tuple[Model, list[str], tuple[LayerView, ...], str]:
            model = models.get(name, number)
            graphs = [each.id for each in service.graphs.all()[:_MOST_GRAPHS]]
            if not graph:
                return model, graphs, (), ""
            try:
                report = service.selection.select(model, graph, explain=True)
            except (InputError, MemoryLimitError) as error:
                return model, graphs, (), str(error)
            return model, graphs, layer_views(model, service.graphs.get(graph), report), ""

        with work.computing.entered():
            model, graphs, layers, trouble = await work.compute(look)
        return page(
            request,
            "model",
            name=name,
            number=number,
            versions=models.versions(name),
            is_loaded=was_loaded or models.is_loaded(name, number),
            description=model.description,
            options=[
                layer.model_dump(exclude=_SHOWN_APART, exclude_none=True)
                for layer in model.description.layers
            ],
            weight_bytes=model.nbytes,
            graphs=graphs,
            graph=graph,
            layers=layers,
            trouble=trouble,
            trial=(MOST_VARIANTS, RUNS, SECONDS),
        )

    @routes.post("/{name}/measure")
    async def measure_model(name: str, request: Request) -> Response:
        """Runs a model on a graph by several variants, and shows what that took."""
        form = await read_form(request, service.limits)
        version, graph = form.whole("version", 1, _LARGEST), form.text("graph")
        with work.computing.entered():
            await work.compute(lambda: measure(service, models.get(name, version), graph))
        return _back(name, version=version, graph=graph)

    @routes.post("/{name}/load")
    async def load(name: str, request: Request) -> Response:
        """Takes a version into memory."""
        version = (await read_form(request, service.limits)).whole("version", 1, _LARGEST)
        with work.computing.entered():
            await work.compute(lambda: models.get(name, version))
        return RedirectResponse("/ui/models", _SEE_OTHER)

    @routes.post("/{name}/unload")
    async def unload(name: str, request: Request) -> Response:
        """Lets go of a model's versions in memory."""
        await read_form(request, service.limits)
        with work.computing.entered():
            await work.compute(lambda: models.unload(name))
        return RedirectResponse("/ui/models", _SEE_OTHER)

    return routes


def _back(name: str, **query: object) -> Response:
    return RedirectResponse(f"/ui/models/{quote(name, safe='')}?{urlencode(query)}", _SEE_OTHER)
