"""A lock on measuring, which all of a user's processes share: one measures at a time."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import platformdirs
from filelock import FileLock, Timeout

from hetune.variants.errors import WorkerError

_log = logging.getLogger(__name__)


@contextmanager
def measuring_lock(path: Path | None = None, *, wait: bool = True) -> Iterator[bool]:
    """Keeps others from measuring while it lasts; yields False if another does, and `wait` is off.

    Whoever waits says so. The system gives the lock back when its process ends, however it ends.

    Args:
        path: A file; by default `measuring.lock` in the user's data folder.
        wait: Wait until nobody else measures.

    Raises:
        WorkerError: The file cannot be made or locked.
    """
    path = path or Path(platformdirs.user_data_dir("hetune", appauthor=False), "measuring.lock")
    lock = FileLock(path)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            if wait:
                _log.warning("something else measures on this machine: waiting for %s", path)
                lock.acquire()
    except (OSError, NotImplementedError) as error:  # the second from file systems without locks
        raise WorkerError(
            f"cannot lock {path} ({error}): whoever measures holds this lock, so that nobody else "
            "does; make its folder writable, on a file system with locks"
        ) from error
    try:
        yield lock.is_locked
    finally:
        lock.release()
