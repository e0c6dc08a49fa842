"""What OpenAPI says of bodies that routes read and write themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fastapi import FastAPI
from pydantic.json_schema import models_json_schema

from hetune.service.core.formats.arrow_stream import MEDIA_TYPE as ARROW_TYPE
from hetune.service.core.formats.documents import Document
from hetune.service.core.formats.message import MEDIA_TYPE
from hetune.service.http.body import JSON_TYPE

Responses = dict[int | str, dict[str, Any]]
BYTES: dict[str, Any] = {"schema": {"type": "string", "format": "binary"}}
"""What a body that is no text has as its schema."""
_REFERENCE = "#/components/schemas/{model}"


def takes(
    kind: type[Document] | None,
    *,
    json: bool = True,
    safetensors: bool = False,
    arrow: bool = False,
    required: bool = True,
) -> dict[str, Any]:
    """The extra of a route whose body is a document, or a container that may hold one."""
    content: dict[str, Any] = {}
    if json and kind is not None:
        content[JSON_TYPE] = holds(kind)
    if safetensors:
        content[MEDIA_TYPE] = BYTES
    if arrow:
        content[ARROW_TYPE] = BYTES
    return {"requestBody": {"required": required, "content": content}}


def gives(kind: type[Document]) -> Responses:
    """The responses of a route that answers with a document, or with a container."""
    return {200: {"model": kind, "content": {MEDIA_TYPE: BYTES}}}


def fails(kind: type[Document], media_type: str) -> Responses:
    """The responses of routes whose errors are all such documents."""
    content = {media_type: holds(kind)}
    return {
        "4XX": {"description": "The request cannot be served.", "content": content},
        "5XX": {"description": "The service cannot serve it now.", "content": content},
    }


def holds(kind: type[Document]) -> dict[str, Any]:
    """The content of a body that is a document which `add_schemas` describes."""
    return {"schema": {"$ref": _REFERENCE.format(model=kind.__name__)}}


def add_schemas(app: FastAPI, *kinds: type[Document]) -> None:
    """Lets an application's OpenAPI description hold the documents that `holds` refers to."""

    def add(found: dict[str, Any]) -> None:
        _, schemas = models_json_schema(
            [(kind, "validation") for kind in kinds], ref_template=_REFERENCE
        )
        known = found.setdefault("components", {}).setdefault("schemas", {})
        for name, schema in schemas["$defs"].items():
            known.setdefault(name, schema)

    amend(app, add)


def add_examples(app: FastAPI, examples: Mapping[str, object]) -> None:
    """Gives schemas of an application's OpenAPI description an example each, by their names."""

    def add(found: dict[str, Any]) -> None:
        for name, example in examples.items():
            found["components"]["schemas"][name]["examples"] = [example]

    amend(app, add)


def amend(app: FastAPI, change: Callable[[dict[str, Any]], None]) -> None:
    """Changes an application's OpenAPI description in place, once, when it is first asked for."""
    plain = app.openapi

    def openapi() -> dict[str, Any]:
        is_made = app.openapi_schema is not None
        found = plain()
        if not is_made:
            change(found)
        return found

    app.openapi = openapi  # type: ignore[method-assign]
