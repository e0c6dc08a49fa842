"""A call of a service: what is sent, and how the answer is read. No IO."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import update_wrapper
from typing import Any, BinaryIO, Generic, TypeAlias, TypeVar
from urllib.parse import quote

import httpx

from hetune.clients.http.wire import check, no_service
from hetune.service.core.formats.message import Pieces, in_pieces
from hetune.variants.errors import InputError

T = TypeVar("T")
M = TypeVar("M", bound=Callable[..., Any])
Progress: TypeAlias = Callable[[int, int], None]
"""Called while a body is sent, with the bytes that are sent and those that are to be sent."""
JSON = "application/json"
EVENTS = "text/event-stream"


@dataclass(frozen=True, slots=True)
class ServiceCall(Generic[T]):
    """A request, and how its answer is read.

    Attributes:
        method: HTTP's.
        path: Below the service's URL.
        read: Makes the result of a response that is no error; a ValueError, KeyError, IndexError
            or TypeError in it means that the response is none of a service's.
        body: What is sent: a container, or JSON.
        accept: Media type of the answer.
        progress: Told how far the body is sent.
        is_repeatable: Whether it changes no more when it comes twice.
        into: Where the body of an answer that is no error is written, from the file's begin.
    """

    method: str
    path: str
    read: Callable[[httpx.Response], T]
    body: Pieces | bytes | None = None
    accept: str = JSON
    progress: Progress | None = None
    is_repeatable: bool = True
    into: BinaryIO | None = None

    def pieces(self) -> Iterator[Any]:
        """The body, from its begin: bytes, and views of tensors where they lie."""
        if self.body is None:
            return
        sent, length = 0, len(self.body)
        for piece in in_pieces([self.body]) if isinstance(self.body, bytes) else self.body:
            yield piece
            sent += len(piece)
            if self.progress is not None:
                self.progress(sent, length)

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
            raise no_service(response, str(error)) from None


def as_method(method: M, call: Callable[..., ServiceCall[Any]]) -> M:
    """Gives a client's method the name, the documentation and the parameters of its call."""
    update_wrapper(method, call)
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    given = inspect.signature(call)
    method.__dict__["__signature__"] = given.replace(
        parameters=[own, *given.parameters.values()],
        return_annotation=inspect.Signature.empty,
    )
    return method


def path_segment(name: str) -> str:
    """A name or an id as one part of a path.

    Raises:
        InputError: It is none.
    """
    if not name or "/" in name or name in (".", ".."):
        raise InputError(
            f"{name!r} is no name or id: take letters, digits, dots, dashes and underscores"
        )
    return quote(name, safe="")
