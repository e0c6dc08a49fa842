"""What wraps the routes: request ids, the guard, errors, HEAD, metrics and logs, in one place."""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
import threading
import time

from hetune.service.core.inference.metrics import Metrics
from hetune.service.http.asgi import App, Event, Receive, Scope, Send, header
from hetune.service.http.logs import request_id
from hetune.service.http.observe import RequestObserver
from hetune.service.http.problems import PAGE, failure_of, problem_of, stopping_problem
from hetune.service.pages.page_requests import is_page
from hetune.service.pages.problems import problem_page
from hetune.service.server.guard import Guard
from hetune.service.server.rechecking import while_allowed

_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_ID_BYTES = 16
_POLICY = 1008  # of a WebSocket that is closed
_NO_READING: dict[str, object] = {"http.response.pathsend": {}}
"""What makes the route of a file send its path in place of what it would have to read."""
_log = logging.getLogger(__name__)


class Middleware:
    """Lets requests in or refuses them, and answers, counts and logs every one.

    Each has an id: the client's `X-Request-ID` if it is a plain word, else a new one. It is in the
    answer, in problems, and in every line of the log. Problems of pages are pages. An error that
    nobody has made an answer of becomes one here. HEAD is answered as GET is, without the body. A
    key has to be good until the answer has ended, however long that takes.

    Args:
        app: The routes.
        guard: Who is let in.
        metrics: Where requests are counted and timed.
        stopping: Set when the service is told to stop: who is cut off then is told.
    """

    def __init__(self, app: App, guard: Guard, metrics: Metrics, stopping: threading.Event) -> None:
        self._app, self._guard, self._stopping = app, guard, stopping
        self._observer = RequestObserver(metrics)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves an ASGI event."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": _POLICY})
            return
        start = time.perf_counter()
        given = header(scope, b"x-request-id")
        id = given if given and _ID.fullmatch(given) else secrets.token_hex(_ID_BYTES)
        state = scope.setdefault("state", {})
        state["request_id"] = id
        if is_page(scope["path"]):
            state[PAGE] = problem_page
        is_head = scope["method"] == "HEAD"
        answer = _Answer(id, is_head, receive, send)
        served = {**scope, "method": "GET", "extensions": _NO_READING} if is_head else scope
        token = request_id.set(id)
        try:
            await self._serve(served, answer)
        finally:
            if is_head:
                scope.update({**served, "method": "HEAD"})  # which route it led to
            seconds = time.perf_counter() - start
            self._observer.record(scope, answer.status, answer.size, seconds)
            request_id.reset(token)

    async def _serve(self, scope: Scope, answer: _Answer) -> None:
        try:
            refusal = self._guard.refusal(scope)
            if refusal is not None:
                await refusal(scope, answer.receive, answer.send)
            else:
                serve = self._app(scope, answer.receive, answer.send)
                await while_allowed(serve, lambda: self._guard.check_again(scope))
        except asyncio.CancelledError:
            if answer.status or not self._stopping.is_set():
                raise
            await stopping_problem(scope)(scope, answer.receive, answer.send)
        except Exception as error:
            if answer.status:
                scope["state"]["failure"] = failure_of(error)
                _log.debug("after its answer had begun: %s", type(error).__name__)
            else:
                await problem_of(error, scope)(scope, answer.receive, answer.send)


class _Answer:
    """An answer on its way: with the request's id, and without a body where only the head is asked.

    Attributes:
        status: 0 until it has begun.
        size: Bytes of its body so far.
    """

    def __init__(self, id: str, is_head: bool, receive: Receive, send: Send) -> None:
        self._id, self._is_head = id.encode(), is_head
        self._receive, self._send = receive, send
        self.status = self.size = 0

    async def receive(self) -> Event:
        """What the client sends next."""
        if self._is_head and self.status:  # a stream would go on
            return {"type": "http.disconnect"}
        return await self._receive()

    async def send(self, event: Event) -> None:
        """Sends a part of the answer."""
        if event["type"] == "http.response.start":
            self.status = event["status"]
            event["headers"] = [*event.get("headers", ()), (b"x-request-id", self._id)]
        elif self._is_head:
            more = event.get("more_body", False)
            event = {"type": "http.response.body", "body": b"", "more_body": more}
        self.size += len(event.get("body", b""))
        await self._send(event)
