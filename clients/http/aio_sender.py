"""What sends the calls of a client for asyncio, each as often as it takes."""

from __future__ import annotations

from asyncio import sleep, to_thread
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import aclosing
from typing import Any, Concatenate, ParamSpec, TypeVar

import httpx

from hetune.clients.http.call import Call, as_method
from hetune.clients.http.exchange import Exchange, Outcome
from hetune.clients.http.job_calls import Event
from hetune.clients.http.light import is_light
from hetune.clients.http.options import options_of, retries_of
from hetune.clients.http.requests import Requests
from hetune.clients.http.watch import Watch

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
        self._http = httpx.AsyncClient(
            **options_of(url, key, timeout),
            transport=transport,
            verify=transport is not None or httpx.create_ssl_context(),  # SSL_CERT_FILE counts
        )
        self._requests = Requests(self._http)

    async def send(self, call: Call[T], retries: int | None = None) -> T:
        """As `Sender.send`."""
        exchange = Exchange(
            call, self._http.base_url, self._retries if retries is None else retries
        )
        while True:
            outcome = await self._try(call)
            pause = exchange.pause(outcome)
            if pause is None:
                if isinstance(outcome, httpx.HTTPError) or is_light(outcome.content):
                    return exchange.result(outcome)
                return await to_thread(exchange.result, outcome)
            await sleep(pause)

    async def watch(self, id: int, after: int) -> AsyncIterator[Event]:
        """As `Sender.watch`."""
        watch = Watch(id, after, self._http.base_url, self._retries)
        while not watch.is_over:
            outcome: Outcome | None = None
            try:
                response = await self._http.send(self._requests.of(watch.ask()), stream=True)
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
        await self._http.aclose()

    async def _try(self, call: Call[Any]) -> Outcome:
        try:
            return await self._http.send(self._requests.of(call))
        except httpx.HTTPError as error:
            return error


class Sending:
    """What has calls as methods, which are awaited.

    Args:
        sender: Sends them.
    """

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender


def sends(
    call: Callable[P, Call[T]],
) -> Callable[Concatenate[Sending, P], Coroutine[Any, Any, T]]:
    """The method that sends a call and gives its result."""

    async def method(self: Sending, /, *args: P.args, **kwargs: P.kwargs) -> T:
        if is_light((args, kwargs)):
            made = call(*args, **kwargs)
        else:
            made = await to_thread(call, *args, **kwargs)
        return await self._sender.send(made)

    return as_method(method, call)
