"""Errors as pages."""

from __future__ import annotations

from http import HTTPStatus
from urllib.parse import quote, urlencode

from fastapi import Response
from fastapi.responses import RedirectResponse
from starlette.requests import Request

from hetune.service.http.asgi import Scope
from hetune.service.pages.page_requests import LOGIN
from hetune.service.pages.render import page


def problem_page(status: int, detail: str, scope: Scope, headers: dict[str, str]) -> Response:
    """What went wrong, for a reader; who has shown no key is asked for one.

    Args:
        status: Of the answer.
        detail: What happened, and how to mend it.
        scope: Of the request, which has an id.
        headers: Of the answer.
    """
    request = Request(scope)
    if status == HTTPStatus.UNAUTHORIZED and scope["method"] == "GET":
        query = scope["query_string"].decode("latin-1")
        target = quote(scope["path"]) + (f"?{query}" if query else "")
        return RedirectResponse(f"{LOGIN}?{urlencode({'next': target})}", 303)
    found = page(
        request,
        "problem",
        status,
        title=HTTPStatus(status).phrase,
        status_code=status,
        detail=detail,
        request_id=scope["state"]["request_id"],
    )
    found.headers.update(headers)
    return found
