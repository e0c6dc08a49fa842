"""Locks that a forked process finds open, whoever held them: its other threads are gone."""

from __future__ import annotations

import os
import threading
from typing import Any
from weakref import WeakSet

_LOCKS: WeakSet[Any] = WeakSet()


def new_lock() -> threading.Lock:
    """A lock."""
    found = threading.Lock()
    _LOCKS.add(found)
    return found


def new_rlock() -> threading.RLock:
    """A lock that its holder may take again."""
    found = threading.RLock()
    _LOCKS.add(found)
    return found


def _open() -> None:
    for lock in [*_LOCKS]:
        lock._at_fork_reinit()


os.register_at_fork(after_in_child=_open)
