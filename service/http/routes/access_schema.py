"""What OpenAPI says of keys."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

from hetune.service.core.keys.scopes import KeyScope, Need
from hetune.service.http.route_scopes import NEEDS
from hetune.service.http.schema import amend

_SCHEME = "key"
_METHODS = frozenset({"get", "put", "post", "delete", "patch", "head", "options", "trace"})


def add_security(app: FastAPI) -> None:
    """Lets an application's OpenAPI description say which key each route needs."""

    def add(found: dict[str, Any]) -> None:
        schemes = found.setdefault("components", {}).setdefault("securitySchemes", {})
        schemes[_SCHEME] = {"type": "http", "scheme": "bearer"}
        for path, operations in found["paths"].items():
            for method in _METHODS & set(operations):
                need = NEEDS.get(f"{method.upper()} {path}", frozenset())
                operations[method]["security"] = _security_of(need)

    amend(app, add)


def _security_of(need: Need) -> list[dict[str, list[str]]]:
    """The alternatives: a key for any one of these."""
    if need is None:
        return []
    return [{_SCHEME: [scope]} for scope in KeyScope if scope in need or scope is KeyScope.admin]
