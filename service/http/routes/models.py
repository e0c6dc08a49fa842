"""Routes of models."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request, Response

from hetune.service.core.formats.documents import Document, Positive, parse
from hetune.service.core.formats.message import read as read_container
from hetune.service.core.models.description import ModelDescription
from hetune.service.core.models.models import ModelStore
from hetune.service.http.body import SMALL_BYTES, Media, Upload, media_of
from hetune.service.http.dispatcher import Dispatcher
from hetune.service.http.parameters import AliasName, ModelName, VersionNumber
from hetune.service.http.schema import takes


class ModelVersions(Document):
    """A model's versions, ascending, and the versions that its aliases name."""

    name: str
    versions: tuple[int, ...]
    aliases: dict[str, int]


class NamedVersion(Document):
    """The version that an alias shall name."""

    version: Positive


class ModelList(Document):
    """All models, by name."""

    models: tuple[ModelVersions, ...]


class ModelVersion(Document):
    """A version of a model."""

    name: str
    version: int
    description: ModelDescription


def router(work: Dispatcher) -> APIRouter:
    """The routes."""
    routes = APIRouter(prefix="/v1/models", tags=["models"])
    models = work.service.models

    @routes.put(
        "/{name}/versions/{version}",
        status_code=201,
        openapi_extra=takes(ModelDescription, json=False, safetensors=True),
        responses={200: {"model": ModelVersion, "description": "It was there already."}},
    )
    async def put_model(
        name: ModelName, version: VersionNumber, request: Request, response: Response
    ) -> ModelVersion:
        """Keeps a version of a model. A version never changes; giving it again is no error."""

        def add(upload: Upload) -> tuple[bool, ModelDescription]:
            message = read_container(upload.path)
            description = parse(ModelDescription, message.document)
            return models.add(name, version, description, message.tensors), description

        async with work.uploaded(request, Media.SAFETENSORS) as upload:
            is_new, description = await work.in_thread(lambda: add(upload))
        response.status_code = 201 if is_new else 200
        return ModelVersion(name=name, version=version, description=description)

    @routes.get("")
    def list_models() -> ModelList:
        """All models and their versions."""
        return ModelList(models=tuple(_versions(models, name) for name in models.names()))

    @routes.get("/{name}")
    def model_versions(name: ModelName) -> ModelVersions:
        """A model's versions."""
        return _versions(models, name)

    @routes.get("/{name}/versions/{version}")
    async def model_version(name: ModelName, version: VersionNumber) -> ModelVersion:
        """A version's layers."""
        with work.computing.entered():
            found = await work.compute(lambda: models.get(name, version))
        return ModelVersion(name=name, version=version, description=found.description)

    @routes.delete("/{name}/versions/{version}", status_code=204)
    def delete_model(name: ModelName, version: VersionNumber) -> None:
        """Deletes a version."""
        models.remove(name, version)

    @routes.put("/{name}/aliases/{alias}", openapi_extra=takes(NamedVersion))
    async def set_alias(name: ModelName, alias: AliasName, request: Request) -> ModelVersions:
        """Lets an alias name a version: who asks for `name@alias` gets that one."""
        media_of(request, Media.JSON)
        async with work.body(request, SMALL_BYTES) as body:
            wanted = await asyncio.to_thread(parse, NamedVersion, bytes(body))

        def set_to() -> ModelVersions:
            models.set_alias(name, alias, wanted.version)
            return _versions(models, name)

        return await asyncio.to_thread(set_to)

    @routes.delete("/{name}/aliases/{alias}", status_code=204)
    def delete_alias(name: ModelName, alias: AliasName) -> None:
        """Deletes an alias; its version stays."""
        models.remove_alias(name, alias)

    return routes


def _versions(models: ModelStore, name: str) -> ModelVersions:
    return ModelVersions(name=name, versions=models.versions(name), aliases=models.aliases(name))
