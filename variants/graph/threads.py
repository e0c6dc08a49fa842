"""How many threads kernels use: as many as torch, unless whoever calls asks for fewer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch

MOST_THREADS = 1024
"""Libraries of threads end a process that asks for many more."""
_asked: ContextVar[int | None] = ContextVar("hetune_threads", default=None)
_is_exact: ContextVar[bool] = ContextVar("hetune_threads_are_exact", default=False)
_used: ContextVar[int | None] = ContextVar("hetune_used_threads", default=None)


def kernel_threads() -> int:
    """The number, of this thread or task."""
    asked = _asked.get()
    return torch.get_num_threads() if asked is None else asked


def may_use_fewer() -> bool:
    """Whether a run may have fewer threads where others keep the processors busy."""
    return not _is_exact.get() and kernel_threads() > 1


def thread_limits() -> tuple[int, bool]:
    """The number, and whether runs have to have it."""
    return _asked.get() or torch.get_num_threads(), _is_exact.get()


@contextmanager
def using_threads(count: int, *, exactly: bool = False) -> Iterator[None]:
    """Kernels use so many while it lasts, whatever torch uses.

    Nothing but the time of a run depends on it: a variant gives the same bits with any number.

    Args:
        count: At least 1.
        exactly: Also where fewer are faster, as who measures wants.
    """
    tokens = _asked.set(count), _is_exact.set(exactly)
    try:
        yield
    finally:
        _asked.reset(tokens[0])
        _is_exact.reset(tokens[1])


def record_used_threads(count: int) -> None:
    """Tells what a run has used."""
    _used.set(count)


def used_threads() -> int:
    """How many the last run of this thread or task had; those of the next one if there was none."""
    return _used.get() or kernel_threads()
