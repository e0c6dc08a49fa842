"""The client for asyncio: the same calls, awaited."""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import TracebackType
from typing import Self

import httpx

from hetune.clients.http import (
    calls,
    cost_model_calls,
    feature_calls,
    job_calls,
    run_calls,
    score_calls,
)
from hetune.clients.http.async_sender import AsyncClientPart, AsyncSender, sends
from hetune.clients.http.job_calls import Event
from hetune.variants.errors import HetuneError


class AsyncJobsClient(AsyncClientPart):
    """`JobsClient` for asyncio: it has the same methods, and they are awaited."""

    submit = sends(job_calls.submit)
    list = sends(job_calls.list)
    get = sends(job_calls.get)
    cancel = sends(job_calls.cancel)
    log = sends(job_calls.log)
    results = sends(job_calls.results)

    def watch(self, id: int, *, after: int = 0) -> AsyncIterator[Event]:
        """As `JobsClient.watch`, for `async for`.

        Args:
            id: Its number.
            after: Only lines with larger numbers.

        Raises:
            NotFoundError: There is none of that number.
            BusyError: Too many watch.
        """
        return self._sender.watch(id, after)


class AsyncRunsClient(AsyncClientPart):
    """`RunsClient` for asyncio: it has the same methods, and they are awaited."""

    submit = sends(run_calls.submit)
    list = sends(run_calls.list)
    get = sends(run_calls.get)
    delete = sends(run_calls.delete)
    rows = sends(run_calls.rows)
    save_rows = sends(run_calls.save_rows)


class AsyncCostModelsClient(AsyncClientPart):
    """`CostModelsClient` for asyncio: it has the same methods, and they are awaited."""

    list = sends(cost_model_calls.list)
    get = sends(cost_model_calls.get)
    card = sends(cost_model_calls.card)
    promote = sends(cost_model_calls.promote)
    rollback = sends(cost_model_calls.rollback)


class AsyncClient(AsyncClientPart):
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
        runs: Runs part by part.
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
        self.runs = AsyncRunsClient(self._sender)
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
    score = sends(score_calls.score)
    top_k = sends(score_calls.top_k)

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
