"""The engines of this process: one for each database, however many of its stores are open.

SQLite's locks on a file belong to the process. They keep several connections of one process apart,
but are all dropped when anything else in the process opens the file and closes it again, or when
a fork inherits it (sqlite.org/howtocorrupt.html, 2.2 and 2.6). So this module is the only one that
touches a store's file other than through SQLite, and only to create it.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import URL, Engine, event

from hetune.profiling.store.sqlite_files import SIDE_FILES, check_no_part
from hetune.variants.errors import StoreError

_URI = "file:"
"""How SQLite's own kind of URL begins, which has options of its own."""


@dataclass(frozen=True, slots=True)
class DatabaseFile:
    """A database's file: its path without links, and which file that was when it was opened."""

    path: Path
    device: int
    inode: int

    def is_there(self) -> bool:
        """Whether the path still leads to it."""
        try:
            found = self.path.stat()
        except OSError:
            return False
        return (found.st_dev, found.st_ino) == (self.device, self.inode)


class SideFiles:
    """The files that SQLite keeps beside a database while this process has connections to it.

    Nobody removes them meanwhile but by mistake: SQLite does so with the last connection, of
    whatever process. Safe with several threads.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._mutex = threading.Lock()
        self._connections = set[object]()
        self._files: tuple[DatabaseFile, ...] = ()

    def connected(self, connection: object) -> None:
        """There is a connection, which has opened the files."""
        with self._mutex:
            self._connections.add(connection)
            if not self._files:
                found = (_found(path) for path in _side_files(self._path))
                self._files = tuple(file for file in found if file is not None)

    def closing(self, connection: object) -> None:
        """A connection is about to be closed."""
        with self._mutex:
            self._connections.discard(connection)
            if not self._connections:
                self._files = ()

    def missing(self) -> DatabaseFile | None:
        """One that was deleted or replaced."""
        with self._mutex:
            return next((file for file in self._files if not file.is_there()), None)


@dataclass(eq=False, slots=True)
class Shared:
    """An engine, and how many stores use it.

    Attributes:
        url: The database's.
        engine: The engine.
        place: What messages call the database.
        file: The database's, if it is one.
        side_files: What SQLite keeps beside it, likewise.
    """

    url: URL
    engine: Engine
    place: str
    file: DatabaseFile | None
    side_files: SideFiles | None
    users: int = 1
    process: int = field(default_factory=os.getpid)

    def check(self) -> None:
        """Checks that the engine may be used.

        Raises:
            StoreError: It is another process's, or its file, or one that SQLite keeps beside it,
                is not there any more.
        """
        if self.process != os.getpid():
            raise _forked(self.place)
        if self.file is not None and not self.file.is_there():
            raise _gone(self.place)
        if self.side_files is not None and (missing := self.side_files.missing()) is not None:
            raise _log_gone(self.place, missing.path)


_SLOW_SECONDS = 0.5
_REST_SECONDS = 1.0
_failed: dict[URL, tuple[float, StoreError]] = {}
"""Databases that could not be reached, each with when to try again, and what it said."""
_opening = threading.Lock()
_open: dict[URL | Path, Shared] = {}
_inherited: dict[URL | Path, Shared] = {}
"""Those of the process that this one was forked from: kept, for closing them is not ours to do."""


def acquire(url: URL, place: str, create: Callable[[], Engine]) -> Shared:
    """The engine for a database; a file that is not there is created, for its owner only.

    Args:
        url: The database's.
        place: What messages call it.
        create: Makes the engine, which opens nothing yet.

    Raises:
        StoreError: The file is in use under another name, or was replaced while it was in use, or
            was in use in the process that this one was forked from, or is a part of another one.
        OSError: The file cannot be created.
    """
    path = file_of(url)
    with _opening:
        key = url if path is None else path
        if (known := _open.get(key)) is not None:
            known.check()
            known.users += 1
            return known
        if path is not None and path in _inherited:
            raise _forked(place)
        if path is not None:
            check_no_part(path)
        file = None if path is None else _created(path)
        for other in _open.values():
            if (a := file) and (b := other.file) and (a.device, a.inode) == (b.device, b.inode):
                raise StoreError(
                    f"the store {place} is open as {other.place}, another name of the same file, "
                    "which would damage it: name it by one of them everywhere, and remove the other"
                )
        engine, side_files = create(), None if path is None else SideFiles(path)
        if side_files is not None:
            _watch(engine, side_files)
        _open[key] = Shared(url, engine, place, file, side_files)
        return _open[key]


def opened(url: URL) -> Shared | None:
    """The engine for a database that is open in this process; None if it is not."""
    path = file_of(url)
    with _opening:
        return _open.get(url if path is None else path)


@contextmanager
def reaching(url: URL) -> Iterator[None]:
    """Reaches for a database; where that failed slowly, it is not tried again for a second.

    So many who wait for one that hangs wait for it together, and not one after the other.

    Raises:
        StoreError: As in the block, or what was raised there a moment ago.
    """
    known = _failed.get(url)
    if known is not None and time.monotonic() < known[0]:
        again = StoreError(str(known[1]))
        again.may_pass = True
        raise again
    begun = time.monotonic()
    try:
        yield
    except StoreError as error:
        now = time.monotonic()
        if error.may_pass and now - begun > _SLOW_SECONDS:
            _failed[url] = now + _REST_SECONDS, error
        raise
    _failed.pop(url, None)


def release(shared: Shared) -> None:
    """Gives an engine back; the last one to do so closes its connections."""
    with _opening:
        shared.users -= 1
        if shared.users or shared.process != os.getpid():
            return
        for key in [key for key, other in _open.items() if other is shared]:
            del _open[key]
        shared.engine.dispose()


def check_unused(path: Path) -> None:
    """Checks that a file, which is about to be opened or replaced, is no store that is open here.

    Raises:
        StoreError: It is one, or a part of a database.
    """
    path = path.resolve()
    with _opening:
        if path in _open:
            raise StoreError(f"{path} is the store itself, which is in use: name another file")
    check_no_part(path)


def file_of(url: URL) -> Path | None:
    """Path of a database's file without links; None for servers, and files with options."""
    name = str(url.database)
    if url.get_backend_name() != "sqlite" or name.startswith(_URI):
        return None
    return Path(name).expanduser().resolve()


def _created(path: Path) -> DatabaseFile:
    """A database's file, which is only opened if it is not there, and so nobody else's."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with suppress(FileExistsError):
        # SQLite gives its other two files the permissions of this one.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    found = path.stat()
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "it is no regular file")
    return DatabaseFile(path, found.st_dev, found.st_ino)


def _side_files(path: Path) -> tuple[Path, ...]:
    """Those that are there all the while that somebody is connected: a journal comes and goes."""
    return tuple(path.with_name(path.name + ending) for ending in SIDE_FILES[:2])


def _found(path: Path) -> DatabaseFile | None:
    try:
        found = path.stat()
    except OSError:  # as in folders that cannot have a log
        return None
    return DatabaseFile(path, found.st_dev, found.st_ino)


def _watch(engine: Engine, side_files: SideFiles) -> None:
    """Tells of an engine's connections, after all that is done to a new one."""
    event.listen(engine, "connect", lambda connection, _: side_files.connected(connection))
    event.listen(engine, "close", lambda connection, _: side_files.closing(connection))


def _gone(place: str) -> StoreError:
    return StoreError(
        f"the file of the store {place} was deleted or replaced while it was in use, and what was "
        "stored last may be lost: put it back, or a copy in its place (`hetune store restore`), "
        "and restart what uses it"
    )


def _log_gone(place: str, file: Path) -> StoreError:
    return StoreError(
        f"{file}, a part of the store {place}, was deleted or replaced while it was in use, and "
        "what was stored last may be lost: stop what uses the store, but not by `kill -9`, so that "
        "this is written to the store's own file, and start it again"
    )


def _forked(place: str) -> StoreError:
    return StoreError(
        f"the store {place} was open when this process was forked, which would damage it: close it "
        "before, or start the process by `spawn`"
    )


def _forget() -> None:
    """In a new process: nothing is open here, and what its parent has open is not touched."""
    global _opening
    _inherited.update(_open)
    _open.clear()
    _opening = threading.Lock()


# The lock is held meanwhile: no other thread is in the middle of opening something.
os.register_at_fork(
    before=lambda: _opening.acquire(),
    after_in_parent=lambda: _opening.release(),
    after_in_child=_forget,
)
