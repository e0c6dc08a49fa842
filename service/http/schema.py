"""What OpenAPI says of bodies that routes read themselves."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from pydantic.json_schema import models_json_schema

from hetune.service.core.documents import Document
from hetune.service.core.message import MEDIA_TYPE
from hetune.service.http.body import JSON_TYPE

_REFERENCE = "#/components/schemas/{model}"
_CONTAINER = {"type": "string", "format": "binary"}


def takes(kind: type[Document], *, json: bool = True, safetensors: bool = False) -> dict[str, Any]:
    """The extra of a route whose body is a document, or a container that holds one."""
    content: dict[str, Any] = {}
    if json:
        content[JSON_TYPE] = {"schema": {"$ref": _REFERENCE.format(model=kind.__name__)}}
    if safetensors:
        content[MEDIA_TYPE] = {"schema": _CONTAINER}
    return {"requestBody": {"required": True, "content": content}}


def gives(kind: type[Document]) -> dict[int | str, dict[str, Any]]:
    """The responses of a route that answers with a document, or with a container."""
    return {200: {"model": kind, "content": {MEDIA_TYPE: {"schema": _CONTAINER}}}}


def add_schemas(app: FastAPI, *kinds: type[Document]) -> None:
    """Lets an application's OpenAPI description hold the documents that `takes` refers to."""
    plain = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            found = plain()
            _, schemas = models_json_schema(
                [(kind, "validation") for kind in kinds], ref_template=_REFERENCE
            )
            known = found.setdefault("components", {}).setdefault("schemas", {})
            for name, schema in schemas["$defs"].items():
                known.setdefault(name, schema)
        return app.openapi_schema or found

    app.openapi = openapi  # type: ignore[method-assign]
