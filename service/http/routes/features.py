"""Routes of features that are kept with graphs."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from hetune.service.core.formats.documents import Document, parse
from hetune.service.core.formats.message import read as read_container
from hetune.service.core.graphs.features import Features, StoredFeatures
from hetune.service.http.body import Media, Upload
from hetune.service.http.dispatcher import Dispatcher
from hetune.service.http.parameters import FeaturesName, GraphId
from hetune.service.http.routes.requests import FeaturesDocument
from hetune.service.http.schema import takes
from hetune.variants.errors import MalformedError
from hetune.variants.graph.hetero import HeteroGraph

_SPARE = 64
"""Tensors beside those that there is a use for, each of which is named when it is refused."""


class FeatureList(Document):
    """The features that are kept with a graph, by name."""

    features: tuple[StoredFeatures, ...]


def router(work: Dispatcher) -> APIRouter:
    """The routes."""
    routes = APIRouter(prefix="/v1/graphs/{id}/features", tags=["features"])
    service = work.service

    @routes.put(
        "/{name}",
        status_code=201,
        openapi_extra=takes(FeaturesDocument, safetensors=True),
        responses={200: {"model": StoredFeatures, "description": "They take the place of others."}},
    )
    async def put_features(
        id: GraphId, name: FeaturesName, request: Request, response: Response
    ) -> StoredFeatures:
        """Keeps features of a graph's nodes, in place of others of that name if there are some."""

        def put(upload: Upload) -> tuple[StoredFeatures, bool]:
            features = _read(upload, service.graphs.get(id))
            return service.features.put(id, name, features)

        service.graphs.files.check_there(id)
        async with work.uploaded(request, Media.JSON, Media.SAFETENSORS) as upload:
            found, is_new = await work.in_thread(lambda: put(upload))
        response.status_code = 201 if is_new else 200
        return found

    @routes.get("")
    def list_features(id: GraphId) -> FeatureList:
        """The features that are kept with a graph, by name."""
        return FeatureList(features=service.features.all(id))

    @routes.get("/{name}")
    def features(id: GraphId, name: FeaturesName) -> StoredFeatures:
        """What features are, without their rows."""
        return service.features.describe(id, name)

    @routes.delete("/{name}", status_code=204)
    def delete_features(id: GraphId, name: FeaturesName) -> None:
        """Deletes features."""
        service.features.remove(id, name)

    return routes


def _read(upload: Upload, graph: HeteroGraph) -> Features:
    if upload.media is Media.JSON:
        return parse(FeaturesDocument, upload.path.read_bytes()).rows(graph.num_nodes)
    message = read_container(upload.path, most=_SPARE + graph.num_ntypes)
    message.check_groups("x")
    found = message.group("x")
    if found is None:
        raise MalformedError("features are missing: give a tensor x, or x/<node type> for each")
    return found
