"""The steps of a request, for a tracer. They cost next to nothing where there is none."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from typing import Protocol


class RequestTracer(Protocol):
    """Traces a request through its steps; those of a step are within it."""

    def step(self, name: str, facts: dict[str, str | int | float]) -> AbstractContextManager[None]:
        """A step while it lasts."""
        ...

    def waited(self, name: str, seconds: float) -> None:
        """A step that has just ended."""
        ...


request_tracer: ContextVar[RequestTracer | None] = ContextVar("request_tracer", default=None)
"""Of the request that is being worked on; also in threads that work for it."""
_NOBODY = nullcontext()


def step(name: str, **facts: str | int | float) -> AbstractContextManager[None]:
    """A step of the request that is being worked on, while it lasts.

    Args:
        name: What is done.
        **facts: On it; nothing that a client has sent.
    """
    found = request_tracer.get()
    return _NOBODY if found is None else found.step(name, facts)


def waited(name: str, seconds: float) -> None:
    """A step of the request that is being worked on, which has just ended."""
    found = request_tracer.get()
    if found is not None:
        found.waited(name, seconds)
