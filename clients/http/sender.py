"""Sends a client's calls, again where that helps."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from time import sleep
from typing import Any, Concatenate, ParamSpec, TypeVar

import httpx

from hetune.clients.http.call import ServiceCall, as_method
from hetune.clients.http.job_calls import Event
from hetune.clients.http.options import options_of, retries_of
from hetune.clients.http.retries import CallAttempts, Outcome
from hetune.clients.http.watch import JobWatch
from hetune.clients.http.wire import BODY, has_tensors

P = ParamSpec("P")
T = TypeVar("T")


class Sender:
    """Sends calls. Threads may share it, and a forked process has connections of its own.

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
        self._options = options_of(url, key, timeout, transport)
        self._pid, self._client = os.getpid(), httpx.Client(**self._options)

    @property
    def url(self) -> httpx.URL:
        """Of the service."""
        return self._client.base_url

    def send(self, call: ServiceCall[T], retries: int | None = None) -> T:
        """The result of a call.

        Args:
            call: What to send.
            retries: How often to send it again, in place of what holds for all calls.

        Raises:
            HetuneError: The service answered with it.
            UnreachableError: There was no answer, or one of something else.
        """
        attempts = CallAttempts(call, self.url, self._retries if retries is None else retries)
        while True:
            outcome = self._try(call)
            pause = attempts.pause(outcome)
            if pause is None:
                return attempts.result(outcome)
            sleep(pause)

    def watch(self, id: int, after: int) -> Iterator[Event]:
        """What happens to a job, after a line of its log, until it ends.

        Raises:
            HetuneError: The service answered with it.
            UnreachableError: There was no answer, or one of something else.
        """
        watch = JobWatch(id, after, self.url, self._retries)
        while not watch.is_over:
            outcome: Outcome | None = None
            try:
                http = self._http()
                response = http.send(watch.ask().request(http, None), stream=True)
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
        self._client.close()

    def _try(self, call: ServiceCall[Any]) -> Outcome:
        http = self._http()
        try:
            request = call.request(http, call.pieces() if call.body else None)
            response = http.send(request, stream=True)
            with closing(response):
                if has_tensors(response):
                    body = response.extensions[BODY] = bytearray()
                    for piece in response.iter_bytes():
                        body += piece
                else:
                    response.read()
        except httpx.HTTPError as error:
            return error
        return response

    def _http(self) -> httpx.Client:
        if self._pid != os.getpid():
            self._pid, self._client = os.getpid(), httpx.Client(**self._options)
        return self._client


class ClientPart:
    """Has calls as methods.

    Args:
        sender: Sends them.
    """

    def __init__(self, sender: Sender) -> None:
        self._sender = sender


def sends(call: Callable[P, ServiceCall[T]]) -> Callable[Concatenate[ClientPart, P], T]:
    """The method that sends a call and gives its result."""

    def method(self: ClientPart, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._sender.send(call(*args, **kwargs))

    return as_method(method, call)
