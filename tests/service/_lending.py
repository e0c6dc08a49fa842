"""Leases over HTTP for tests: an application in a loop of its own, without a network."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import httpx

from hetune.clients.http.leases import HttpLeases
from hetune.profiling.jobs.leases import Leases
from hetune.service.core.jobs.work_leases import WorkLeases
from hetune.service.http.asgi import App
from hetune.service.server.app import application

from ._serving import make_service


class Bridge(httpx.BaseTransport):
    """Sends requests to an application in the event loop of another thread."""

    def __init__(self, app: App, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = httpx.ASGITransport(app), loop

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """The answer, read."""
        content = request.read()  # what is sent may be pieces, which this loop does not wait for
        whole = httpx.Request(request.method, request.url, headers=request.headers, content=content)
        return asyncio.run_coroutine_threadsafe(self._answer(whole), self._loop).result(60)

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        found = await self._transport.handle_async_request(request)
        content = await found.aread()
        return httpx.Response(found.status_code, headers=found.headers, content=content)


@contextmanager
def lending_over_http(folder: Path) -> Iterator[Callable[[Leases], HttpLeases]]:
    """Makes of leases those that a worker on another machine has."""
    service = make_service(folder)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def lend(leases: Leases) -> HttpLeases:
        app = application(replace(service, work_leases=WorkLeases(lambda: leases)))
        return HttpLeases("http://service", transport=Bridge(app, loop))

    try:
        yield lend
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(60)
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
        service.close()
