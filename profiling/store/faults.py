"""What can go wrong with a database, and how to mend it."""

from __future__ import annotations

import errno
import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from hetune.variants.errors import StoreError

_OTHER = "set HETUNE_STORE to another store"
_ACCESS = f"make the file and its folder readable and writable, or {_OTHER}"
_BUSY = "another process has held it for long: wait for its end, or raise HETUNE_STORE_SECONDS"
# How an error's name or state begins, how to mend it, and whether it may pass by itself; the first
# that fits decides.
_SQLITE = (
    ("SQLITE_FULL", f"free some space, or {_OTHER}", True),
    ("SQLITE_IOERR", f"check the disk and the space that is left on it, or {_OTHER}", True),
    ("SQLITE_READONLY", f"make the file and its folder writable, or {_OTHER}", False),
    ("SQLITE_PERM", f"make the file and its folder writable, or {_OTHER}", False),
    ("SQLITE_CANTOPEN", _ACCESS, False),
    ("SQLITE_BUSY", _BUSY, True),
    ("SQLITE_LOCKED", _BUSY, True),
    (
        "SQLITE_CORRUPT",
        "the file is damaged: save what is left (`sqlite3 FILE .recover`) or put a copy in its "
        f"place, or {_OTHER}",
        False,
    ),
    ("SQLITE_NOTADB", f"the file is no database: move it away, or {_OTHER}", False),
)
_POSTGRESQL = (
    (
        "08",
        "check that the server runs, that it has such a database, and the host, port, user and "
        "password in the URL",
        True,
    ),
    ("25006", f"the server does not take writes: {_OTHER}", False),
    ("40", _OTHER, True),
    ("42501", "have the right to read, insert and create tables granted to the user", False),
    ("53100", f"free some space on the server, or {_OTHER}", True),
    ("53", "the server is overloaded: try again, or allow it more", True),
    ("55P03", _BUSY, True),
    ("55", _OTHER, True),
    ("57014", "it took longer than HETUNE_STORE_SECONDS: try again, or raise that", True),
    ("57", "the server was shut down: try again when it is back", True),
    ("58", _OTHER, True),
)


@contextmanager
def explained(doing: str, place: str, secrets: tuple[str, ...] = ()) -> Iterator[None]:
    """Turn a database's errors into ours, with the way to mend them.

    Args:
        doing: What fails then, e.g. ``"read"``.
        place: What messages call the store.
        secrets: What messages must not hold.

    Raises:
        StoreError: Instead of the database's error; nothing is chained to it, for drivers quote
            what they were given.
    """
    try:
        yield
    except StoreError:
        raise
    except (SQLAlchemyError, sqlite3.Error, OSError) as error:
        said = _said(error)
        for secret in secrets:
            said = said.replace(secret, "***")
        mend, may_pass = _advice(error)
        found = StoreError(f"cannot {doing} the store {place} ({said}): {mend}")
        found.may_pass = may_pass
        raise found from None


def _said(error: Exception) -> str:
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    cause = error.orig if isinstance(error, DBAPIError) else error
    lines = str(cause).strip().splitlines()
    return re.sub(r"\s+", " ", lines[0]).rstrip(".:") if lines else type(cause).__name__


def _advice(error: Exception) -> tuple[str, bool]:
    """How to mend it, and whether it may pass by itself."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    if isinstance(cause, OSError):
        is_full = cause.errno in (errno.ENOSPC, errno.EDQUOT)
        return f"free some space, or {_OTHER}" if is_full else _ACCESS, is_full
    if isinstance(cause, sqlite3.Error):
        return _known(_SQLITE, getattr(cause, "sqlite_errorname", ""))
    if isinstance(error, DBAPIError):
        # Who was not let in, or has been hung up on, is told no state.
        return _known(_POSTGRESQL, getattr(cause, "sqlstate", None) or "08")
    if isinstance(error, PoolTimeoutError):
        return "all connections are in use: try again", True
    return f"check the URL, or {_OTHER}", False


def _known(faults: tuple[tuple[str, str, bool], ...], name: str) -> tuple[str, bool]:
    found = ((mend, passes) for start, mend, passes in faults if name.startswith(start))
    return next(found, (_OTHER, False))
