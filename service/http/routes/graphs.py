"""Routes of graphs."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import APIRouter, Request, Response
from torch import Tensor

from hetune.service.core.formats.arrow_stream import opened
from hetune.service.core.formats.documents import Document, parse
from hetune.service.core.formats.limits import ServiceLimits
from hetune.service.core.formats.message import read as read_container
from hetune.service.core.graphs.arrow import graph_of_batches
from hetune.service.core.graphs.document import GraphDocument, GraphHeader, graph_of
from hetune.service.core.graphs.edit import EditDocument, EditHeader, GraphEdit
from hetune.service.core.graphs.graphs import GraphStatistics, StoredGraph, statistics
from hetune.service.http.body import Media, Upload
from hetune.service.http.dispatcher import Dispatcher
from hetune.service.http.parameters import GraphId
from hetune.service.http.schema import takes
from hetune.variants.errors import MalformedError
from hetune.variants.graph.hetero import HeteroGraph

_BODIES = (Media.JSON, Media.SAFETENSORS)
_SPARE = 64
"""Tensors that are looked at one by one; a graph has four."""


class GraphCreated(Document):
    """A graph that is kept now."""

    id: str
    num_nodes: int
    num_edges: int


class GraphList(Document):
    """All graphs, the one used last first."""

    graphs: tuple[StoredGraph, ...]


def router(work: Dispatcher) -> APIRouter:
    """The routes."""
    routes = APIRouter(prefix="/v1/graphs", tags=["graphs"])
    service = work.service

    async def keep(
        request: Request,
        response: Response,
        make: Callable[[Upload], HeteroGraph],
        *more: Media,
    ) -> GraphCreated:
        """Keeps what is made of a body: JSON, safetensors, or one of more types."""

        def add(upload: Upload) -> GraphCreated:
            graph = make(upload)
            key = service.graphs.add(graph)
            return GraphCreated(id=key, num_nodes=graph.num_nodes, num_edges=graph.num_edges)

        async with work.uploaded(request, *_BODIES, *more) as upload:
            created = await work.in_thread(lambda: add(upload))
        response.headers["Location"] = f"/v1/graphs/{created.id}"
        return created

    @routes.post(
        "", status_code=201, openapi_extra=takes(GraphDocument, safetensors=True, arrow=True)
    )
    async def upload_graph(request: Request, response: Response) -> GraphCreated:
        """Keeps a graph under the fingerprint of its content. Giving it again changes nothing."""

        def read(upload: Upload) -> HeteroGraph:
            return _read(upload, service.limits)

        return await keep(request, response, read, Media.ARROW)

    @routes.patch("/{id}", status_code=201, openapi_extra=takes(EditDocument, safetensors=True))
    async def edit_graph(id: GraphId, request: Request, response: Response) -> GraphCreated:
        """Keeps the graph that an edit makes of this one, which stays, under an id of its own."""

        def edit(upload: Upload) -> HeteroGraph:
            graph = service.graphs.get(id)
            return _read_edit(upload, graph).apply(graph, service.limits)

        return await keep(request, response, edit)

    @routes.get("")
    def list_graphs() -> GraphList:
        """All graphs that are kept, the one used last first."""
        return GraphList(graphs=service.graphs.all())

    @routes.get("/{id}")
    async def graph_statistics(id: GraphId) -> GraphStatistics:
        """Counts and degrees of a graph."""
        with work.computing.entered():
            return await work.compute(lambda: statistics(service.graphs.get(id)))

    @routes.delete("/{id}", status_code=204)
    def delete_graph(id: GraphId) -> None:
        """Deletes a graph."""
        service.graphs.remove(id)

    @routes.put("/{id}/pin", status_code=204)
    def pin_graph(id: GraphId) -> None:
        """Keeps a graph whatever the quota."""
        service.graphs.pin(id)

    @routes.delete("/{id}/pin", status_code=204)
    def unpin_graph(id: GraphId) -> None:
        """Lets a graph go again when graphs are over their quota."""
        service.graphs.pin(id, pinned=False)

    return routes


def _read(upload: Upload, limits: ServiceLimits) -> HeteroGraph:
    if upload.media is Media.JSON:
        document = parse(GraphDocument, upload.path.read_bytes())
        return graph_of(document, document.arrays(limits), limits)
    if upload.media is Media.ARROW:
        with opened(upload.path, limits) as batches:
            return graph_of_batches(batches.schema, batches, limits)
    message = read_container(upload.path, most=_SPARE)
    return graph_of(parse(GraphHeader, message.document), message.tensors, limits)


def _read_edit(upload: Upload, graph: HeteroGraph) -> GraphEdit:
    if upload.media is Media.JSON:
        return GraphEdit.of(parse(EditDocument, upload.path.read_bytes(), _fields_of(graph)))
    message = read_container(upload.path, most=_SPARE + 2 * graph.num_etypes)
    parts = {}
    for name in ("add", "remove"):
        found = message.group(name)
        if isinstance(found, Tensor):
            raise MalformedError(f"there is a tensor {name!r}: give {name}/<edge type> for each")
        parts[name] = found or {}
    message.check_groups(*parts)
    return GraphEdit(parse(EditHeader, message.document, _fields_of(graph)), **parts)


def _fields_of(graph: HeteroGraph) -> int:
    """How many fields an edit has at most that names each type once, and a few that are wrong."""
    return _SPARE + graph.num_ntypes + 2 * graph.num_etypes
