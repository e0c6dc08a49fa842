"""Sends the calls of a client for asyncio, again where that helps."""

from __future__ import annotations

from asyncio import sleep, to_thread
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import aclosing
from typing import Any, Concatenate, ParamSpec, TypeVar

import httpx

from hetune.clients.http.call import ServiceCall, as_method
from hetune.clients.http.endpoint import Endpoint, retries_of
from hetune.clients.http.job_calls import Event
from hetune.clients.http.retries import CallAttempts, Outcome
from hetune.clients.http.watch import JobWatch
from hetune.clients.http.wire import BODY, MOST_KEPT, has_tensors, is_done, rewind
from hetune.service.core.formats.body_memory import BodyMemory, ReceivedBody, announced_bytes

P = ParamSpec("P")
T = TypeVar("T")


class AsyncSender:
    """`Sender` for asyncio: the same methods, awaited.

    Args:
        url: As for `Client`; so are the others.
        key: The service's key.
        timeout: Seconds to wait for an answer.
        retries: How often a request is sent again.
        transport: What sends requests, in place of the network.

    Raises:
        InputError: The URL is none, or retries are negative.
        AccessError: No header can hold the key.
    """

    def __init__(
        self,
        url: str,
        key: str | None,
        timeout: float | None,
        retries: int,
        transport: httpx.AsyncBaseTransport | None,
    ) -> None:
        self._retries = retries_of(retries)
        self._endpoint = Endpoint(url, key, timeout)
        self._memory = BodyMemory(MOST_KEPT)
        self._transport = transport or httpx.AsyncHTTPTransport(
            **self._endpoint.transport_options()
        )

    async def send(self, call: ServiceCall[T], retries: int | None = None) -> T:
        """As `Sender.send`."""
        retries = self._retries if retries is None else retries
        attempts = CallAttempts(call, self._endpoint.url, retries)
        while True:
            outcome = await self._try(call)
            pause = attempts.pause(outcome)
            if pause is None:
                return await to_thread(attempts.result, outcome)
            await sleep(pause)

    async def watch(self, id: int, after: int) -> AsyncIterator[Event]:
        """As `Sender.watch`."""
        watch = JobWatch(id, after, self._endpoint.url, self._retries)
        while not watch.is_over:
            outcome: Outcome | None = None
            try:
                response = await self._begun(watch.ask())
                async with aclosing(response):
                    if watch.takes(response):
                        async for line in response.aiter_lines():
                            if (event := watch.event(line)) is not None:
                                yield event
                    else:
                        await response.aread()
                        outcome = response
            except httpx.HTTPError as error:
                outcome = error
            await sleep(watch.pause(outcome))

    async def close(self) -> None:
        """Ends the connections."""
        self._endpoint.is_closed = True
        await self._transport.aclose()

    async def _try(self, call: ServiceCall[Any]) -> Outcome:
        try:
            response = await self._begun(call)
            async with aclosing(response):
                if has_tensors(response, call.accept):
                    body = ReceivedBody(self._memory, announced_bytes(response.headers))
                    async for piece in response.aiter_bytes():
                        body.add(piece)
                    response.extensions[BODY] = body.content
                elif call.into is not None and is_done(response):
                    rewind(call.into)
                    async for piece in response.aiter_bytes():
                        await to_thread(call.into.write, piece)
                else:
                    await response.aread()
        except httpx.HTTPError as error:
            return error
        return response

    async def _begun(self, call: ServiceCall[Any]) -> httpx.Response:
        """The answer to a call, of which the head is read."""
        request = self._endpoint.request(call)
        response = await self._transport.handle_async_request(request)
        response.request = request
        return response


class AsyncClientPart:
    """Has calls as methods, which are awaited.

    Args:
        sender: Sends them.
    """

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender


def sends(
    call: Callable[P, ServiceCall[T]],
) -> Callable[Concatenate[AsyncClientPart, P], Coroutine[Any, Any, T]]:
    """The method that sends a call and gives its result.

    What converts graphs and reads answers may take long, and runs in threads beside the event loop.
    """

    async def method(self: AsyncClientPart, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._sender.send(await to_thread(call, *args, **kwargs))

    return as_method(method, call)
