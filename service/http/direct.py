"""A way to the endpoint that is asked for most, past what FastAPI does for every request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import SimpleNamespace

from fastapi import Request, Response
from starlette.routing import compile_path

from hetune.service.http.asgi import App, Receive, Scope, Send
from hetune.service.http.problems import answer_to


class Direct:
    """Leads requests of one template to their endpoint; all others go on.

    FastAPI has the endpoint as a route too, by which it is documented: what both answer is equal.

    Args:
        app: What answers all others.
        method: Of the requests.
        template: Of their paths, with one parameter.
        endpoint: Takes that parameter's value, and the request, which it reads itself.
    """

    def __init__(
        self,
        app: App,
        method: str,
        template: str,
        endpoint: Callable[[str, Request], Awaitable[Response]],
    ) -> None:
        self._app, self._method, self._endpoint = app, method, endpoint
        self._pattern = compile_path(template)[0]
        self._route = SimpleNamespace(path_format=template)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves an ASGI event."""
        found = None
        if scope["type"] == "http" and scope["method"] == self._method:
            found = self._pattern.match(scope["path"])
        if found is None:
            await self._app(scope, receive, send)
            return
        [(name, value)] = found.groupdict().items()
        scope.update(route=self._route, endpoint=self._endpoint, path_params={name: value})
        try:
            response = await self._endpoint(value, Request(scope, receive))
        except Exception as error:  # as FastAPI's handlers, it lets none out
            response = answer_to(error, scope)
        await response(scope, receive, send)
