"""How many threads kernels use: as many as torch, unless whoever calls asks for fewer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch

MOST_THREADS = 1024
"""Libraries of threads end a process that asks for many more."""
_asked: ContextVar[int | None] = ContextVar("hetune_threads", default=None)


def kernel_threads() -> int:
    """The number, of this thread or task."""
    asked = _asked.get()
    return torch.get_num_threads() if asked is None else asked


@contextmanager
def using_threads(count: int) -> Iterator[None]:
    """Kernels use so many while it lasts, whatever torch uses.

    Nothing but the time of a run depends on it: a variant gives the same bits with any number.

    Args:
        count: At least 1.
    """
    token = _asked.set(count)
    try:
        yield
    finally:
        _asked.reset(token)
