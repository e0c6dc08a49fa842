"""The client: graphs, models and inference of a service, as if they were here."""

from __future__ import annotations

import httpx

from hetune.clients.http import calls, feature_calls
from hetune.clients.http.profiling import CostModelsClient, JobsClient
from hetune.clients.http.sender import Sender, Sending, sends
from hetune.profiling.closing import Closing
from hetune.variants.errors import HetuneError


class Client(Sending, Closing):
    """A service's client. Tensors travel as they are: results equal those in-process, bit by bit.

    Errors are those that the service raised: a `NotFoundError` there is a `NotFoundError` here.
    Every method also raises `UnreachableError` where no service answers.

    Args:
        url: Of the service, such as ``http://127.0.0.1:8000``.
        key: Its key; `HETUNE_API_KEY` by default, or none.
        timeout: Seconds to wait for an answer, or for the network to take or give more of it; None
            for as long as it takes. Connecting takes ten at most.
        retries: How often a request is sent again, within a minute, where the connection fails or
            the service is busy or out of reach (429, 502, 503, 504); 0 for never.
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
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        super().__init__(Sender(url, key, timeout, retries, transport))
        self.jobs = JobsClient(self._sender)
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
