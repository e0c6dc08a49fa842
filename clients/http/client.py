"""The client: graphs, models and inference of a service, as if they were here."""

from __future__ import annotations

from collections.abc import Callable
from time import sleep
from typing import Any, Concatenate, ParamSpec, TypeVar

import httpx

from hetune.clients.http import calls, feature_calls
from hetune.clients.http.call import Call, as_method
from hetune.clients.http.exchange import Exchange, Outcome
from hetune.clients.http.options import options_of, retries_of
from hetune.clients.http.profiling import CostModelsClient, JobsClient
from hetune.clients.http.received import Received
from hetune.clients.http.requests import Requests
from hetune.clients.http.transport import Transport
from hetune.profiling.closing import Closing
from hetune.variants.errors import HetuneError

P = ParamSpec("P")
T = TypeVar("T")


def _sends(call: Callable[P, Call[T]]) -> Callable[Concatenate[Client, P], T]:
    """The method that sends a call and gives its result."""

    def method(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._send(call(*args, **kwargs), self._retries)

    return as_method(method, call)


class Client(Closing):
    """A service's client. Tensors travel as they are: results equal those in-process, bit by bit.

    Errors are those that the service raised: a `NotFoundError` there is a `NotFoundError` here.
    Every method also raises `UnreachableError` where no service answers.

    Args:
        url: Of the service, such as ``http://127.0.0.1:8000``.
        key: Its key; `HETUNE_API_KEY` by default, or none.
        timeout: Seconds to wait for an answer, or for the network to take or give more of it; None
            for as long as it takes. Connecting takes ten at most.
        retries: How often a request is sent again, within a minute, where the connection fails or
            the service is busy (429, 503); 0 for never.
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
        self._retries = retries_of(retries)
        self._transport = transport or Transport()
        self._http = httpx.Client(**options_of(url, key, timeout), transport=self._transport)
        self._requests = Requests(self._http)
        self.jobs = JobsClient(self._http)
        self.cost_models = CostModelsClient(self._http)

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

    def ready(self) -> bool:
        """Whether a service answers and can serve requests. It is asked once."""
        try:
            self._send(calls.ready(), retries=0)
        except HetuneError:
            return False
        return True

    def close(self) -> None:
        """Ends the connections."""
        self._http.close()

    def _send(self, call: Call[T], retries: int) -> T:
        exchange = Exchange(call, self._http.base_url, retries)
        while True:
            outcome = self._try(call)
            pause = exchange.pause(outcome)
            if pause is None:
                return exchange.result(outcome)
            sleep(pause)

    def _try(self, call: Call[Any]) -> Outcome:
        # Past httpx's client, whose cookies, redirects and hooks take longer than all else here.
        request = self._requests.of(call)
        try:
            response = self._transport.handle_request(request)
            response.request = request
            if not isinstance(response, Received):
                response.read()
        except httpx.HTTPError as error:
            return error
        return response
