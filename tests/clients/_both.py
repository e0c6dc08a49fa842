"""Both clients behind one face, so that a test is of both."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from inspect import isasyncgen
from typing import Any

import httpx

from hetune.clients import AsyncClient, Client

KINDS = ("sync", "async")


class Awaited:
    """An `AsyncClient`, or a part of one, whose methods are called as a `Client`'s."""

    def __init__(self, client: Any, runner: asyncio.Runner) -> None:
        self._client, self._runner = client, runner

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._client, name)
        return partial(self._run, found) if callable(found) else Awaited(found, self._runner)

    def _run(self, method: Any, *args: Any, **kwargs: Any) -> Any:
        found = method(*args, **kwargs)
        return self._each(found) if isasyncgen(found) else self._runner.run(found)

    def _each(self, events: Any) -> Iterator[Any]:
        async def following() -> Any:
            return await anext(events, None)

        while (event := self._runner.run(following())) is not None:
            yield event


@contextmanager
def connected(kind: str, url: str, **options: Any) -> Iterator[Any]:
    """A client of a kind; closed in the end."""
    if kind == "sync":
        with Client(url, **options) as client:
            yield client
        return
    with asyncio.Runner() as runner:
        awaited = Awaited(AsyncClient(url, **options), runner)
        try:
            yield awaited
        finally:
            awaited.close()


class Script:
    """A transport that plays outcomes, the last one for ever, and keeps the requests."""

    def __init__(self, *outcomes: httpx.Response | Exception) -> None:
        self.outcomes = list(outcomes)
        self.requests: list[httpx.Request] = []
        self.transport = httpx.MockTransport(self._answer)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        outcome = self.outcomes.pop(0) if len(self.outcomes) > 1 else self.outcomes[0]
        if isinstance(outcome, Exception):
            raise outcome
        return httpx.Response(outcome.status_code, headers=outcome.headers, stream=outcome.stream)
