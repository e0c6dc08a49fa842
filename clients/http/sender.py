"""What sends a client's calls, each as often as it takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from time import sleep
from typing import Any, Concatenate, ParamSpec, TypeVar

import httpx

from hetune.clients.http.call import Call, as_method
from hetune.clients.http.exchange import Exchange, Outcome
from hetune.clients.http.job_calls import Event
from hetune.clients.http.options import options_of, retries_of
from hetune.clients.http.received import Received
from hetune.clients.http.requests import Requests
from hetune.clients.http.transport import Transport
from hetune.clients.http.watch import Watch

P = ParamSpec("P")
T = TypeVar("T")


class Sender:
    """Sends calls. Threads may share it.

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
        transport: httpx.BaseTransport | None,
    ) -> None:
        self._retries = retries_of(retries)
        self._transport = transport or Transport()
        self._http = httpx.Client(**options_of(url, key, timeout), transport=self._transport)
        self._requests = Requests(self._http)

    def send(self, call: Call[T], retries: int | None = None) -> T:
        """The result of a call.

        Args:
            call: What to send.
            retries: How often to send it again, in place of what holds for all calls.

        Raises:
            HetuneError: The service answered with it.
            UnreachableError: There was no answer, or one of something else.
        """
        exchange = Exchange(
            call, self._http.base_url, self._retries if retries is None else retries
        )
        while True:
            outcome = self._try(call)
            pause = exchange.pause(outcome)
            if pause is None:
                return exchange.result(outcome)
            sleep(pause)

    def watch(self, id: int, after: int) -> Iterator[Event]:
        """What happens to a job, after a line of its log, until it ends.

        Raises:
            HetuneError: The service answered with it.
            UnreachableError: There was no answer, or one of something else.
        """
        watch = Watch(id, after, self._http.base_url, self._retries)
        while not watch.is_over:
            outcome: Outcome | None = None
            try:
                response = self._http.send(self._requests.of(watch.ask()), stream=True)
                with closing(response):
                    if watch.takes(response):
                        yield from filter(None, map(watch.event, response.iter_lines()))
                    else:
                        response.read()
                        outcome = response
            except httpx.HTTPError as error:
                outcome = error
            sleep(watch.pause(outcome))

    def close(self) -> None:
        """Ends the connections."""
        self._http.close()

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


class Sending:
    """What has calls as methods.

    Args:
        sender: Sends them.
    """

    def __init__(self, sender: Sender) -> None:
        self._sender = sender


def sends(call: Callable[P, Call[T]]) -> Callable[Concatenate[Sending, P], T]:
    """The method that sends a call and gives its result."""

    def method(self: Sending, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._sender.send(call(*args, **kwargs))

    return as_method(method, call)
