"""Sends a client's calls, again where that helps."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from time import sleep
from typing import Any, Concatenate, ParamSpec, TypeVar

import httpx

from hetune.clients.http.call import ServiceCall, as_method
from hetune.clients.http.endpoint import Endpoint, retries_of
from hetune.clients.http.job_calls import Event
from hetune.clients.http.retries import CallAttempts, Outcome
from hetune.clients.http.watch import JobWatch
from hetune.clients.http.wire import BODY, MOST_KEPT, has_tensors, is_done, rewind
from hetune.service.core.formats.body_memory import BodyMemory, ReceivedBody, announced_bytes

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
        self._endpoint = Endpoint(url, key, timeout)
        self._given, self._memory = transport, BodyMemory(MOST_KEPT)
        self._pid, self._transport = os.getpid(), self._connected()

    @property
    def url(self) -> httpx.URL:
        """Of the service."""
        return self._endpoint.url

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
                response = self._begun(watch.ask())
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
        self._endpoint.is_closed = True
        self._transport.close()

    def _try(self, call: ServiceCall[Any]) -> Outcome:
        try:
            response = self._begun(call)
            with closing(response):
                if has_tensors(response, call.accept):
                    body = ReceivedBody(self._memory, announced_bytes(response.headers))
                    for piece in response.iter_bytes():
                        body.add(piece)
                    response.extensions[BODY] = body.content
                elif call.into is not None and is_done(response):
                    rewind(call.into)
                    for piece in response.iter_bytes():
                        call.into.write(piece)
                else:
                    response.read()
        except httpx.HTTPError as error:
            return error
        return response

    def _begun(self, call: ServiceCall[Any]) -> httpx.Response:
        """The answer to a call, of which the head is read."""
        if self._pid != os.getpid():
            self._pid, self._transport = os.getpid(), self._connected()
        request = self._endpoint.request(call)
        response = self._transport.handle_request(request)
        response.request = request
        return response

    def _connected(self) -> httpx.BaseTransport:
        return self._given or httpx.HTTPTransport(**self._endpoint.transport_options())


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
