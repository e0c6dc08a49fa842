"""The client: graphs, models and inference of a service, as if they were here."""

from __future__ import annotations

from collections.abc import Iterator

import httpx

from hetune.clients.http import (
    calls,
    cost_model_calls,
    feature_calls,
    job_calls,
    run_calls,
    score_calls,
)
from hetune.clients.http.job_calls import Event
from hetune.clients.http.sender import ClientPart, Sender, sends
from hetune.profiling.closeable import Closeable
from hetune.variants.errors import HetuneError


class JobsClient(ClientPart):
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


class RunsClient(ClientPart):
    """Runs part by part. Every method also raises `UnreachableError`."""

    submit = sends(run_calls.submit)
    list = sends(run_calls.list)
    get = sends(run_calls.get)
    delete = sends(run_calls.delete)
    rows = sends(run_calls.rows)
    save_rows = sends(run_calls.save_rows)


class CostModelsClient(ClientPart):
    """Cost models, by id or alias. Every method also raises `UnreachableError`."""

    list = sends(cost_model_calls.list)
    get = sends(cost_model_calls.get)
    card = sends(cost_model_calls.card)
    promote = sends(cost_model_calls.promote)
    rollback = sends(cost_model_calls.rollback)


class Client(ClientPart, Closeable):
    """A service's client. Tensors travel as they are: results equal those in-process, bit by bit.

    Errors are those that the service raised: a `NotFoundError` there is a `NotFoundError` here.
    Every method also raises `UnreachableError` where no service answers.

    Args:
        url: Of the service, such as ``http://127.0.0.1:8000``.
        key: Its key; `HETUNE_API_KEY` by default, or none.
        timeout: Seconds to wait for an answer, or for the network to take or give more of it; None
            for as long as it takes. Connecting takes ten at most.
        retries: How often a request is sent again, within a minute, where the connection fails or
            the service is busy or out of reach (429, 502, 503, a proxy's 504); 0 for never.
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
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        super().__init__(Sender(url, key, timeout, retries, transport))
        self.jobs = JobsClient(self._sender)
        self.runs = RunsClient(self._sender)
        self.cost_models = CostModelsClient(self._sender)

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

    def ready(self) -> bool:
        """Whether a service answers and can serve requests. It is asked once."""
        try:
            self._sender.send(calls.ready(), retries=0)
        except HetuneError:
            return False
        return True

    def close(self) -> None:
        """Ends the connections."""
        self._sender.close()
