"""What wraps every route: request ids, errors that are left over, and who may come in."""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
import uuid
from collections.abc import Collection

from hetune.service.http.asgi import App, Event, Receive, Scope, Send, header
from hetune.service.http.logs import request_id
from hetune.service.http.problems import problem_of, routing_problem
from hetune.service.pages.access import is_open, is_own, is_page
from hetune.service.pages.sessions import Sessions
from hetune.variants.errors import AccessError

OPEN_PATHS = frozenset(
    {"/v1/health/live", "/v1/health/ready", "/v2/health/live", "/v2/health/ready"}
)
"""The only paths that need no key."""
_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_FORBIDDEN, _MISDIRECTED = 403, 421
_log = logging.getLogger(__name__)


class RequestIds:
    """Gives each request an id: the client's `X-Request-ID` if it is a plain word, else a new one.

    It is in the answer, in problems, and in every line of the log.
    """

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves an ASGI event."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = header(scope, b"x-request-id")
        id = given if given and _ID.fullmatch(given) else uuid.uuid4().hex
        scope.setdefault("state", {})["request_id"] = id

        async def send_with_id(event: Event) -> None:
            if event["type"] == "http.response.start":
                event["headers"] = [*event.get("headers", ()), (b"x-request-id", id.encode())]
            await send(event)

        token = request_id.set(id)
        try:
            await self._app(scope, receive, send_with_id)
        finally:
            request_id.reset(token)


class Failures:
    """Makes an answer of an error that nobody has made one of. None goes further."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves an ASGI event."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = False

        async def watched(event: Event) -> None:
            nonlocal started
            started = started or event["type"] == "http.response.start"
            await send(event)

        try:
            await self._app(scope, receive, watched)
        except Exception as error:
            if not started:
                await problem_of(error, scope)(scope, receive, watched)
            else:
                _log.debug("after its answer had begun: %s", type(error).__name__)


class Guard:
    """Denies by default: every path but `OPEN_PATHS` needs the key, if there is one.

    Args:
        app: What is guarded.
        key: The key; None for none.
        hosts: Names that requests may call the service by; None for any. Without a key this keeps
            web pages from reaching a service on the user's machine under a name of their own.
        sessions: Of browsers that have shown the key, for pages.
    """

    def __init__(
        self, app: App, key: str | None, hosts: Collection[str] | None, sessions: Sessions
    ) -> None:
        self._app = app
        self._digest = None if key is None else _digest(key)
        self._hosts, self._sessions = hosts, sessions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves an ASGI event."""
        if scope["type"] != "http" or scope["path"] in OPEN_PATHS:
            await self._app(scope, receive, send)
            return
        if not self._is_addressed(header(scope, b"host")):
            refusal = routing_problem(
                _MISDIRECTED, "the service does not answer under this host name", scope
            )
        elif not self._is_own(scope):
            refusal = routing_problem(
                _FORBIDDEN, "the service does not answer pages of other origins", scope
            )
        elif not is_open(scope["path"]) and not self._is_allowed(
            self._sessions.authorization(scope)
        ):
            error = AccessError("send the service's key: 'Authorization: Bearer <key>'")
            refusal = problem_of(error, scope)
        else:
            await self._app(scope, receive, send)
            return
        await refusal(scope, receive, send)

    def _is_addressed(self, host: str | None) -> bool:
        if self._hosts is None:
            return True
        return host is not None and re.sub(r":\d+$", "", host).lower() in self._hosts

    def _is_own(self, scope: Scope) -> bool:
        """Whether it is no web page of somebody else's that uses its reader's machine."""
        origin, host = header(scope, b"origin"), header(scope, b"host")
        if is_page(scope["path"]) and not is_own(scope):
            return False
        return self._digest is not None or origin is None or origin.partition("://")[2] == host

    def _is_allowed(self, authorization: str | None) -> bool:
        if self._digest is None:
            return True
        scheme, _, key = (authorization or "").partition(" ")
        is_key = hmac.compare_digest(_digest(key.strip()), self._digest)
        return is_key and scheme.lower() == "bearer"


def sessions_of(key: str | None) -> Sessions:
    """Sessions of a service with that key; None for none."""

    def is_key(given: str) -> bool:
        return key is not None and hmac.compare_digest(_digest(given), _digest(key))

    return Sessions(is_key, lambda: key is None)


def _digest(key: str) -> bytes:
    """All of one length, so that comparing takes the same time for every key."""
    return hashlib.sha256(key.encode("latin-1", "replace")).digest()
