"""What wraps every route: request ids, errors that are left over, and who may come in."""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
import threading
from collections.abc import Collection

from hetune.service.core.keys.access import Access
from hetune.service.http.access import is_public, needs_of
from hetune.service.http.asgi import App, Event, Receive, Scope, Send, header
from hetune.service.http.logs import request_id
from hetune.service.http.problems import (
    PAGE,
    failure_of,
    problem_of,
    routing_problem,
    stopping_problem,
)
from hetune.service.pages.access import is_own, is_page
from hetune.service.pages.problems import problem_page
from hetune.service.pages.sessions import Sessions
from hetune.service.server.rechecking import while_allowed
from hetune.variants.errors import AccessError, HetuneError

_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_ID_BYTES = 16
_FORBIDDEN, _MISDIRECTED = 403, 421
_POLICY = 1008  # of a WebSocket that is closed
_log = logging.getLogger(__name__)


class RequestIds:
    """Gives each request an id: the client's `X-Request-ID` if it is a plain word, else a new one.

    It is in the answer, in problems, and in every line of the log. Problems of pages are pages.
    """

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves an ASGI event."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = header(scope, b"x-request-id")
        id = given if given and _ID.fullmatch(given) else secrets.token_hex(_ID_BYTES)
        state = scope.setdefault("state", {})
        state["request_id"] = id
        if is_page(scope["path"]):
            state[PAGE] = problem_page

        async def send_with_id(event: Event) -> None:
            if event["type"] == "http.response.start":
                event["headers"] = [*event.get("headers", ()), (b"x-request-id", id.encode())]
            await send(event)

        token = request_id.set(id)
        try:
            await self._app(scope, receive, send_with_id)
        finally:
            request_id.reset(token)


class ErrorAnswers:
    """Makes an answer of an error that nobody has made one of. None goes further.

    Args:
        app: What answers.
        stopping: Set when the service is told to stop: who is cut off then is told.
    """

    def __init__(self, app: App, stopping: threading.Event) -> None:
        self._app, self._stopping = app, stopping

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
        except asyncio.CancelledError:
            if started or not self._stopping.is_set():
                raise
            await stopping_problem(scope)(scope, receive, watched)
        except Exception as error:
            if not started:
                await problem_of(error, scope)(scope, receive, watched)
            else:
                scope["state"]["failure"] = failure_of(error)
                _log.debug("after its answer had begun: %s", type(error).__name__)


class Guard:
    """Denies by default: every request needs a key that is for it, but where `NEEDS` wants none.

    The key has to be good until the answer has ended, however long that takes.

    Args:
        app: What is guarded.
        access: Who is let in.
        hosts: Names that requests may call the service by; None for any. Without a key this keeps
            web pages from reaching a service on the user's machine under a name of their own.
        sessions: Of browsers that have shown a key, for pages.
    """

    def __init__(
        self, app: App, access: Access, hosts: Collection[str] | None, sessions: Sessions
    ) -> None:
        self._app, self._access = app, access
        self._hosts, self._sessions = hosts, sessions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves an ASGI event."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] != "http":
            await send({"type": "websocket.close", "code": _POLICY})
        elif (refusal := self._refusal(scope)) is not None:
            await refusal(scope, receive, send)
        else:
            serve = self._app(scope, receive, send)
            await while_allowed(serve, lambda: self._check(scope))

    def _check(self, scope: Scope) -> None:
        """Looks again at a request that was let in, with the key or session that it came with.

        Raises:
            AccessError: It may not go on.
            FolderError: The keys cannot be read.
        """
        try:
            self._refusal(scope)
        except HetuneError as error:
            _log.warning("request %s ends early: %s", scope["state"]["request_id"], error)
            raise

    def _refusal(self, scope: Scope) -> App | None:
        """What to answer instead of letting a request in; raises what keys are refused with."""
        host, origin = header(scope, b"host"), header(scope, b"origin")
        if not self._is_addressed(host):
            return routing_problem(
                _MISDIRECTED, "the service does not answer under this host name", scope
            )
        if is_page(scope["path"]) and not is_own(scope):
            return routing_problem(_FORBIDDEN, "this is no form of one of these pages", scope)
        is_open = self._access.is_open
        # A web page of somebody else's may use its reader's machine, and has no key.
        if is_open and origin is not None and origin.partition("://")[2] != host:
            return routing_problem(
                _FORBIDDEN, "the service does not answer pages of other origins", scope
            )
        if not is_open and not is_public(scope["method"], scope["path"]):
            caller = self._access.caller(_key_of(self._sessions.authorization(scope)))
            scope["state"]["key"] = caller.name
            caller.check(needs_of(scope["method"], scope["path"]))
        return None

    def _is_addressed(self, host: str | None) -> bool:
        if self._hosts is None:
            return True
        return host is not None and re.sub(r":\d+$", "", host).lower() in self._hosts


def _key_of(authorization: str | None) -> str:
    scheme, _, key = (authorization or "").partition(" ")
    if scheme.lower() != "bearer" or not key.strip():
        raise AccessError("send the service's key: 'Authorization: Bearer <key>'")
    return key.strip()
