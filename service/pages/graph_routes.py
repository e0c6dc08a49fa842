"""Pages of graphs."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import APIRouter, Request, Response

from hetune.service.core.graphs.features import StoredFeatures
from hetune.service.core.inference.answers import LayerReport
from hetune.service.core.service import Service
from hetune.service.http.dispatcher import Dispatcher
from hetune.service.pages.distributions import GraphView, view_of
from hetune.service.pages.render import page
from hetune.variants.errors import HetuneError, InputError

_MOST_LISTED = 200
_MOST_MODELS = 10
_FIRST_ROWS, _MOST_ROWS = 12, 500


@dataclass(frozen=True, slots=True)
class _Chosen:
    """What is chosen for a model on the graph.

    Attributes:
        model: Its name.
        version: The latest.
        layers: Of each layer; empty where the graph is none for it.
        trouble: Why there is no choice.
    """

    model: str
    version: int
    layers: tuple[LayerReport, ...]
    trouble: str


def router(work: Dispatcher) -> APIRouter:
    """The routes."""
    routes = APIRouter(prefix="/ui/graphs", include_in_schema=False)
    service = work.service

    @routes.get("")
    def list_graphs(request: Request) -> Response:
        """All graphs, the one used last first."""
        found = service.graphs.all()
        return page(request, "graphs", graphs=found[:_MOST_LISTED], total=len(found))

    @routes.get("/{id}")
    async def show_graph(id: str, request: Request) -> Response:
        """Counts, degrees, relations and features of a graph, and what is chosen for it."""

        def look() -> tuple[GraphView, tuple[_Chosen, ...], tuple[StoredFeatures, ...]]:
            features = service.features.all(id)[:_MOST_LISTED]
            return view_of(service.graphs.get(id)), _choices(service, id), features

        with work.computing.entered():
            view, choices, features = await work.compute(look)
        return page(
            request,
            "graph",
            view=view,
            choices=choices,
            features=features,
            models=len(service.models.names()),
            first_rows=_FIRST_ROWS,
            most_rows=_MOST_ROWS,
        )

    return routes


def _choices(service: Service, graph: str) -> tuple[_Chosen, ...]:
    found = []
    for name in service.models.names()[:_MOST_MODELS]:
        version = service.models.versions(name)[-1]
        try:
            layers, trouble = service.selection.select(name, graph).layers, ""
        except InputError as error:
            layers, trouble = (), str(error)
        except HetuneError as error:
            layers, trouble = (), f"no choice: {error}"
        found.append(_Chosen(name, version, layers, trouble))
    return tuple(found)
