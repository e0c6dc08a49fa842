"""Errors as answers. The one place that knows which error is which status.

They are problem details (RFC 9457), but under `PROTOCOL`: there they are what the Open Inference
Protocol wants, with the statuses that its clients know. Where a request's state has a `PAGE`, they
are pages.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from http import HTTPMethod, HTTPStatus
from typing import TypeAlias

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException as RoutingError
from starlette.requests import ClientDisconnect
from starlette.routing import BaseRoute, Match

from hetune.service.core.formats.documents import Document
from hetune.service.core.storage.outage import RecentErrors
from hetune.service.http.asgi import Scope
from hetune.variants import errors
from hetune.variants.errors import HetuneError

PROTOCOL = "/v2"
"""Paths of the Open Inference Protocol are this and what is below."""
PAGE = "problem_page"
"""Where the state of a request for a page has what makes pages of problems: it takes the status,
the detail, the scope and headers, and gives a response."""
MEDIA_TYPE = "application/problem+json"
URN = "urn:hetune:error:"
"""A problem's type is this and the name of the error's class in `hetune.errors`."""
RETRY_SECONDS = 1
MOST_DETAIL = 2_000
"""Characters of what went wrong that are sent."""

STATUS: dict[type[HetuneError], int] = {
    errors.MalformedError: 400,
    errors.AccessError: 401,
    errors.ScopeError: 403,
    errors.NotFoundError: 404,
    errors.ConflictError: 409,
    errors.PromotionError: 409,
    errors.TooLargeError: 413,
    errors.MemoryLimitError: 413,
    errors.CampaignError: 422,
    errors.GraphError: 422,
    errors.InputError: 422,
    errors.ProgramError: 422,
    errors.VariantError: 422,
    errors.BusyError: 429,
    errors.DeadlineError: 504,
    errors.DeviceError: 503,
    errors.DeviceMemoryError: 503,
    errors.DiskFullError: 507,
    errors.FolderError: 503,
    errors.ModelError: 503,
    errors.NotReadyError: 503,
    errors.RegistryError: 503,
    errors.StoreError: 503,
    HetuneError: 500,
}
PROTOCOL_STATUS = {409: 400, 422: 400, 429: 503, 504: 503, 507: 503}
"""What the Open Inference Protocol's clients know from Triton in place of others."""
_TOLD = (
    errors.DeadlineError,
    errors.DeviceMemoryError,
    errors.DiskFullError,
    errors.NotReadyError,
)
"""Failures of the service whose reasons are for clients, too."""
_NO_DATABASE = (
    "the database of jobs and measurements cannot be used now: try again later; the service's log "
    "has the reason"
)
_NO_FOLDER = (
    "the service's files cannot be used now: try again later; the service's log has the reason"
)
_folder_outages = RecentErrors()
_NOWHERE = (
    "there is nothing at this path: GET /v1/openapi.json describes the API, and / has the pages "
    "for browsers"
)
PageOfProblem: TypeAlias = Callable[[int, str, Scope, dict[str, str]], Response]
_NO_METHOD = 405
_SERVER = 500
_SCOPE = ' error="insufficient_scope"'
_log = logging.getLogger(__name__)


class ProblemDetails(Document):
    """Why a request was not served. The id is also in the header `X-Request-ID`, and in the log."""

    type: str
    title: str
    status: int
    detail: str
    request_id: str


def status_of(kind: type[HetuneError]) -> int:
    """The status of an error: its own, or that of the nearest class above it."""
    return next(STATUS[base] for base in kind.__mro__ if base in STATUS)


def failure_of(error: Exception) -> str:
    """What logs and metrics call an error: its class in `hetune.errors`, or the one above it."""
    kind = type(error) if isinstance(error, HetuneError) else HetuneError
    return next(base.__name__ for base in kind.__mro__ if base.__module__ == errors.__name__)


def problem_of(error: Exception, scope: Scope) -> Response:
    """An error as a response. What went wrong inside is logged, and not told.

    Args:
        error: Any.
        scope: Of the request, which has an id. Its state takes the error's name as `failure`,
            unless it is what a probe of health asks for: that the service is not ready yet.
    """
    request_id = scope["state"]["request_id"]
    status = status_of(type(error)) if isinstance(error, HetuneError) else _SERVER
    name = failure_of(error)
    detail = str(error)
    if isinstance(error, errors.StoreError):
        detail = _NO_DATABASE  # what is wrong with it is logged once, and not for each request
    elif isinstance(error, errors.FolderError) and not isinstance(error, _TOLD):
        detail = _NO_FOLDER
        if _folder_outages.has_begun(str(error)):
            _log.error("request %s failed", request_id, exc_info=error)
    elif status >= _SERVER and not isinstance(error, _TOLD):
        _log.error("request %s failed", request_id, exc_info=error)
        detail = f"the service failed: its log has the reason under the request id {request_id}"
    headers = {}
    if isinstance(error, errors.BusyError | errors.NotReadyError | errors.StoreError):
        headers["Retry-After"] = str(RETRY_SECONDS)
    if isinstance(error, errors.AccessError):
        is_known = isinstance(error, errors.ScopeError)
        headers["WWW-Authenticate"] = f"Bearer{_SCOPE if is_known else ''}"
    if not isinstance(error, errors.NotReadyError):
        scope["state"]["failure"] = name
    return _response(status, URN + name, detail, scope, headers)


def routing_problem(status: int, detail: str, scope: Scope) -> Response:
    """What HTTP itself has a status for: no such route, method or media type."""
    scope["state"]["failure"] = f"http_{status}"
    return _response(status, "about:blank", detail, scope, {})


def stopping_problem(scope: Scope) -> Response:
    """What a service that stops answers to whom it does not serve any more."""
    found = routing_problem(503, "the service is stopping: try another one, or again later", scope)
    found.headers["Retry-After"] = str(RETRY_SECONDS)
    return found


def answer_to(error: Exception, scope: Scope) -> Response:
    """Whatever ends a request, as a response.

    Args:
        error: Any.
        scope: As `problem_of` takes it.
    """
    if isinstance(error, RoutingError):
        is_nowhere = error.status_code == HTTPStatus.NOT_FOUND and "endpoint" not in scope
        detail = _NOWHERE if is_nowhere else error.detail
        found = routing_problem(error.status_code, detail, scope)
        found.headers.update(error.headers or {})
        return found
    if isinstance(error, ClientDisconnect):
        _log.info("request %s: the client went away", scope["state"]["request_id"])
        return routing_problem(400, "the body ended early", scope)
    if isinstance(error, RequestValidationError):
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        error = errors.MalformedError(f"{where}: {first['msg']}")
    return problem_of(error, scope)


def add_handlers(app: FastAPI) -> None:
    """Lets an application answer every error with a problem."""

    async def answer(request: Request, error: Exception) -> Response:
        return answer_to(error, request.scope)

    async def routing(request: Request, error: Exception) -> Response:
        found = answer_to(error, request.scope)
        if found.status_code == _NO_METHOD:
            found.headers["Allow"] = ", ".join(_methods(app, request.scope))
        return found

    answered: tuple[type[Exception], ...] = (
        ClientDisconnect,
        HetuneError,
        Exception,
        RequestValidationError,
    )
    for kind in answered:
        app.add_exception_handler(kind, answer)
    app.add_exception_handler(HTTPException, routing)
    app.add_exception_handler(RoutingError, routing)


def _methods(app: FastAPI, scope: Scope) -> list[str]:
    """The methods that a path has: each route knows its own alone."""
    asked = {key: scope[key] for key in ("type", "path", "root_path") if key in scope}
    return [
        method.value
        for method in HTTPMethod
        if any(_leads(route, asked, method) for route in app.routes)
    ]


def _leads(route: BaseRoute, asked: Scope, method: HTTPMethod) -> bool:
    own = HTTPMethod.GET if method is HTTPMethod.HEAD else method
    return route.matches({**asked, "method": own.value})[0] is Match.FULL


def _response(
    status: int, kind: str, detail: str, scope: Scope, headers: dict[str, str]
) -> Response:
    if len(detail) > MOST_DETAIL:  # it quotes what somebody sent
        detail = f"{detail[:MOST_DETAIL]}..."
    if f"{scope['path']}/".startswith(f"{PROTOCOL}/"):
        return JSONResponse({"error": detail}, PROTOCOL_STATUS.get(status, status), headers)
    page: PageOfProblem | None = scope["state"].get(PAGE)
    if page is not None:
        return page(status, detail, scope, headers)
    problem = ProblemDetails(
        type=kind,
        title=HTTPStatus(status).phrase,
        status=status,
        detail=detail,
        request_id=scope["state"]["request_id"],
    )
    return JSONResponse(problem.model_dump(), status, headers, MEDIA_TYPE)
