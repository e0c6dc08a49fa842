"""Profiling jobs and cost models of a service, as the client shows them."""

from __future__ import annotations

from collections.abc import Iterator

from hetune.clients.http import cost_model_calls, job_calls
from hetune.clients.http.job_calls import Event
from hetune.clients.http.sender import Sending, sends


class JobsClient(Sending):
    """Profiling jobs. Every method also raises `UnreachableError` where no service answers."""

    submit = sends(job_calls.submit)
    list = sends(job_calls.list)
    get = sends(job_calls.get)
    cancel = sends(job_calls.cancel)
    log = sends(job_calls.log)
    results = sends(job_calls.results)

    def watch(self, id: int, *, after: int = 0) -> Iterator[Event]:
        """What happens to a job, as it happens: lines of its log, and the job when it changes.

        Ends with the job; what comes last is the job as it ended. A stream that breaks is asked
        for again, as other requests are, and goes on where it was.

        Args:
            id: Its number.
            after: Only lines with larger numbers.

        Raises:
            NotFoundError: There is none of that number.
            BusyError: Too many watch.
        """
        return self._sender.watch(id, after)


class CostModelsClient(Sending):
    """Cost models, by id or alias. Every method also raises `UnreachableError`."""

    list = sends(cost_model_calls.list)
    get = sends(cost_model_calls.get)
    card = sends(cost_model_calls.card)
    promote = sends(cost_model_calls.promote)
    rollback = sends(cost_model_calls.rollback)
