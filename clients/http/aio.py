"""The client for asyncio: the same calls, awaited."""

from __future__ import annotations

from types import TracebackType
from typing import Self

import httpx

from hetune.clients.http import calls, feature_calls
from hetune.clients.http.aio_profiling import AsyncCostModelsClient, AsyncJobsClient
from hetune.clients.http.aio_sender import AsyncSender, Sending, sends
from hetune.variants.errors import HetuneError


class AsyncClient(Sending):
    """`Client` for asyncio: it has the same methods, and they are awaited.

    What may take more than a millisecond, such as converting a graph or reading a large answer, is
    done in threads beside the event loop.

    Args:
        url: As for `Client`; so are the others.
        key: The service's key.
        timeout: Seconds to wait for an answer.
        retries: How often a request is sent again.
        transport: What sends requests, in place of the network.

    Attributes:
        jobs: Profiling jobs.
        cost_models: Cost models.

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
        super().__init__(AsyncSender(url, key, timeout, retries, transport))
        self.jobs = AsyncJobsClient(self._sender)
        self.cost_models = AsyncCostModelsClient(self._sender)

    upload_graph = sends(calls.upload_graph)
    edit_graph = sends(calls.edit_graph)
    graphs = sends(calls.graphs)
    graph = sends(calls.graph)
    delete_graph = sends(calls.delete_graph)
    pin_graph = sends(calls.pin_graph)
    unpin_graph = sends(calls.unpin_graph)

    put_features = sends(feature_calls.put_features)
    features = sends(feature_calls.features)
    delete_features = sends(feature_calls.delete_features)

    put_model = sends(calls.put_model)
    models = sends(calls.models)
    model = sends(calls.model)
    delete_model = sends(calls.delete_model)
    aliases = sends(calls.aliases)
    set_alias = sends(calls.set_alias)
    delete_alias = sends(calls.delete_alias)

    infer = sends(calls.infer)
    select = sends(calls.select)

    async def ready(self) -> bool:
        """Whether a service answers and can serve requests. It is asked once."""
        try:
            await self._sender.send(calls.ready(), retries=0)
        except HetuneError:
            return False
        return True

    async def close(self) -> None:
        """Ends the connections."""
        await self._sender.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()
