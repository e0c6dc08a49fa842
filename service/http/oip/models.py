"""Routes of models: of one version, or of the latest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fastapi import APIRouter, Depends, Request, Response

from hetune.service.core.models.description import ModelDescription
from hetune.service.core.models.models import ModelStore
from hetune.service.http.dispatcher import Dispatcher
from hetune.service.http.oip.documents import (
    ModelConfig,
    ModelMetadata,
    ModelReady,
    StatisticsList,
)
from hetune.service.http.oip.inference import ANSWERS, REQUEST, infer
from hetune.service.http.oip.metadata import config_of, metadata_of
from hetune.service.http.oip.statistics import Statistics
from hetune.service.http.parameters import ModelName, VersionNumber
from hetune.variants.errors import NotFoundError


@dataclass(frozen=True, slots=True)
class Located:
    """What a path names.

    Attributes:
        name: Of a model that there is.
        versions: All that there are, ascending.
        named: Those that the path names.
    """

    name: str
    versions: tuple[int, ...]
    named: tuple[int, ...]

    @property
    def version(self) -> int:
        """The latest that the path names."""
        return self.named[-1]


def latest(models: ModelStore) -> Callable[..., Located]:
    """Finds a model by its name alone, which names all its versions."""

    def find(name: ModelName) -> Located:
        versions = models.versions(name)
        return Located(name, versions, versions)

    return find


def numbered(models: ModelStore) -> Callable[..., Located]:
    """Finds a model by name and version."""

    def find(name: ModelName, version: VersionNumber) -> Located:
        versions = models.versions(name)
        if version not in versions:
            raise NotFoundError(f"there is no version {version} of the model {name}")
        return Located(name, versions, (version,))

    return find


def model_routes(work: Dispatcher, counters: Statistics, find: Callable[..., Located]) -> APIRouter:
    """The routes.

    Args:
        work: What they need.
        counters: Of requests.
        find: What the path names, of its parameters.
    """
    routes = APIRouter()
    located = Depends(find)

    async def description_of(model: Located) -> ModelDescription:
        with work.computing.entered():
            found = await work.compute(lambda: work.service.models.get(model.name, model.version))
        return found.description

    @routes.get("")
    async def model_metadata(model: Located = located) -> ModelMetadata:
        """A model's tensors."""
        return metadata_of(model.name, model.versions, await description_of(model))

    @routes.get("/config")
    async def model_config(model: Located = located) -> ModelConfig:
        """A model's configuration."""
        return config_of(model.name, await description_of(model))

    @routes.get("/ready")
    async def model_ready(model: Located = located) -> ModelReady:
        """Whether a model can be run: whether there is one."""
        return ModelReady(name=model.name, ready=True)

    @routes.get("/stats")
    async def model_statistics(model: Located = located) -> StatisticsList:
        """A model's requests over this protocol since the service was started."""
        return StatisticsList(
            model_stats=tuple(counters.of(model.name, version) for version in model.named)
        )

    @routes.post("/infer", openapi_extra=REQUEST, response_class=Response, responses=ANSWERS)
    async def model_infer(request: Request, model: Located = located) -> Response:
        """Runs a model on a graph, by the variants that suit it."""
        return await infer(work, counters, model.name, model.version, request)

    return routes


def all_statistics(models: ModelStore, counters: Statistics) -> APIRouter:
    """The route of all models' statistics."""
    routes = APIRouter()

    @routes.get("/v2/models/stats")
    def statistics() -> StatisticsList:
        """Requests over this protocol since the service was started, of all models."""
        return StatisticsList(
            model_stats=tuple(
                counters.of(name, version)
                for name in models.names()
                for version in models.versions(name)
            )
        )

    return routes
