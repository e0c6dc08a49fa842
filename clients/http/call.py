"""A call of a service: what is sent, and how the answer is read. No IO."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import update_wrapper
from typing import Any, Generic, TypeAlias, TypeVar

import httpx

from hetune.clients.http.tracing import trace_headers
from hetune.clients.http.wire import check, foreign
from hetune.service.core.message import MEDIA_TYPE, Pieces

T = TypeVar("T")
M = TypeVar("M", bound=Callable[..., Any])
Progress: TypeAlias = Callable[[int, int], None]
"""Called while a body is sent, with the bytes that are sent and those that are to be sent."""
_JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """A request, and how its answer is read. Sent twice, it changes no more than sent once.

    Attributes:
        method: HTTP's.
        path: Below the service's URL.
        read: Makes the result of a response that is no error; a ValueError, KeyError, IndexError
            or TypeError in it means that the response is none of a service's.
        body: What is sent: a container, or JSON.
        accept: Media type of the answer.
        progress: Told how far the body is sent.
    """

    method: str
    path: str
    read: Callable[[httpx.Response], T]
    body: Pieces | bytes | None = None
    accept: str = _JSON
    progress: Progress | None = None

    @property
    def headers(self) -> dict[str, str]:
        """What the request says of itself."""
        found = {"Accept": self.accept} | trace_headers()
        if self.body is not None:
            kind = _JSON if isinstance(self.body, bytes) else MEDIA_TYPE
            found |= {"Content-Type": kind, "Content-Length": str(len(self.body))}
        return found

    def pieces(self) -> Iterator[bytes] | None:
        """The body, from its begin."""
        return None if self.body is None else self._pieces(self.body)

    def _pieces(self, body: Pieces | bytes) -> Iterator[bytes]:
        sent = 0
        for piece in [body] if isinstance(body, bytes) else body:
            yield piece
            sent += len(piece)
            if self.progress is not None:
                self.progress(sent, len(body))

    def result(self, response: httpx.Response) -> T:
        """What an answer says.

        Raises:
            HetuneError: The service answered with it.
            UnreachableError: The answer is none of a service's.
        """
        check(response)
        try:
            return self.read(response)
        except (ValueError, KeyError, IndexError, TypeError) as error:
            raise foreign(response, str(error)) from None


def as_method(method: M, call: Callable[..., Call[Any]]) -> M:
    """Gives a client's method the name, the documentation and the parameters of its call."""
    update_wrapper(method, call)
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    given = inspect.signature(call)
    method.__dict__["__signature__"] = given.replace(
        parameters=[own, *given.parameters.values()],
        return_annotation=inspect.Signature.empty,
    )
    return method
