"""The client for asyncio: the same calls, awaited."""

from __future__ import annotations

from asyncio import sleep, to_thread
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import httpx

from hetune.clients.http import calls, feature_calls
from hetune.clients.http.call import Call, as_method
from hetune.clients.http.exchange import Exchange, Outcome
from hetune.clients.http.light import is_light
from hetune.clients.http.options import options_of, retries_of
from hetune.clients.http.requests import Requests
from hetune.variants.errors import HetuneError

P = ParamSpec("P")
T = TypeVar("T")


def _sends(
    call: Callable[P, Call[T]],
) -> Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]]:
    """The method that sends a call and gives its result."""

    async def method(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        if is_light((args, kwargs)):
            made = call(*args, **kwargs)
        else:
            made = await to_thread(call, *args, **kwargs)
        return await self._send(made, self._retries)

    return as_method(method, call)


class AsyncClient:
    """`Client` for asyncio: it has the same methods, and they are awaited.

    What may take more than a millisecond, such as converting a graph or reading a large answer, is
    done in threads beside the event loop.

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
        *,
        key: str | None = None,
        timeout: float | None = 600.0,
        retries: int = 3,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._retries = retries_of(retries)
        self._http = httpx.AsyncClient(**options_of(url, key, timeout), transport=transport)
        self._requests = Requests(self._http)

    upload_graph = _sends(calls.upload_graph)
    edit_graph = _sends(calls.edit_graph)
    graphs = _sends(calls.graphs)
    graph = _sends(calls.graph)
    delete_graph = _sends(calls.delete_graph)
    pin_graph = _sends(calls.pin_graph)
    unpin_graph = _sends(calls.unpin_graph)

    put_features = _sends(feature_calls.put_features)
    features = _sends(feature_calls.features)
    delete_features = _sends(feature_calls.delete_features)

    put_model = _sends(calls.put_model)
    models = _sends(calls.models)
    model = _sends(calls.model)
    delete_model = _sends(calls.delete_model)
    aliases = _sends(calls.aliases)
    set_alias = _sends(calls.set_alias)
    delete_alias = _sends(calls.delete_alias)

    infer = _sends(calls.infer)
    select = _sends(calls.select)

    async def ready(self) -> bool:
        """Whether a service answers and can serve requests. It is asked once."""
        try:
            await self._send(calls.ready(), retries=0)
        except HetuneError:
            return False
        return True

    async def close(self) -> None:
        """Ends the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def _send(self, call: Call[T], retries: int) -> T:
        exchange = Exchange(call, self._http.base_url, retries)
        while True:
            outcome = await self._try(call)
            pause = exchange.pause(outcome)
            if pause is None:
                if isinstance(outcome, httpx.HTTPError) or is_light(outcome.content):
                    return exchange.result(outcome)
                return await to_thread(exchange.result, outcome)
            await sleep(pause)

    async def _try(self, call: Call[Any]) -> Outcome:
        try:
            return await self._http.send(self._requests.of(call))
        except httpx.HTTPError as error:
            return error
