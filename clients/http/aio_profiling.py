"""Profiling jobs and cost models of a service, as the client for asyncio shows them."""

from __future__ import annotations

from collections.abc import AsyncIterator

from hetune.clients.http import cost_model_calls, job_calls
from hetune.clients.http.aio_sender import Sending, sends
from hetune.clients.http.job_calls import Event


class AsyncJobsClient(Sending):
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


class AsyncCostModelsClient(Sending):
    """`CostModelsClient` for asyncio: it has the same methods, and they are awaited."""

    list = sends(cost_model_calls.list)
    get = sends(cost_model_calls.get)
    card = sends(cost_model_calls.card)
    promote = sends(cost_model_calls.promote)
    rollback = sends(cost_model_calls.rollback)
