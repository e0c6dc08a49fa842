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
_BUSY = "another process has held it for long: wait for its end, or raise HETUNE_STORE_SECONDS"
# The first prefix that fits an error's name decides.
_SQLITE = (
    ("SQLITE_FULL", f"free some space, or {_OTHER}"),
    ("SQLITE_IOERR", f"check the disk and the space that is left on it, or {_OTHER}"),
    ("SQLITE_READONLY", f"make the file and its folder writable, or {_OTHER}"),
    ("SQLITE_PERM", f"make the file and its folder writable, or {_OTHER}"),
    ("SQLITE_CANTOPEN", f"make the file and its folder readable and writable, or {_OTHER}"),
    ("SQLITE_BUSY", _BUSY),
    ("SQLITE_LOCKED", _BUSY),
    (
        "SQLITE_CORRUPT",
        "the file is damaged: save what is left (`sqlite3 FILE .recover`) or put a copy in its "
        f"place, or {_OTHER}",
    ),
    ("SQLITE_NOTADB", f"the file is no database: move it away, or {_OTHER}"),
)
_POSTGRESQL = (
    (
        "08",
        "check that the server runs, that it has such a database, and the host, port, user and "
        "password in the URL",
    ),
    ("25006", f"the server does not take writes: {_OTHER}"),
    ("42501", "have the right to read, insert and create tables granted to the user"),
    ("53100", f"free some space on the server, or {_OTHER}"),
    ("53", "the server is overloaded: try again, or allow it more"),
    ("55P03", _BUSY),
    ("57014", "it took longer than HETUNE_STORE_SECONDS: try again, or raise that"),
    ("57", "the server was shut down: try again when it is back"),
)

_PASSING_SQLITE = ("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_BUSY", "SQLITE_LOCKED")
_PASSING_POSTGRESQL = ("08", "40", "53", "55", "57", "58")


@contextmanager
def explained(doing: str, place: str, secrets: tuple[str, ...]) -> Iterator[None]:
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
        found = StoreError(f"cannot {doing} the store {place} ({said}): {_mend(error)}")
        found.may_pass = _may_pass(error)
        raise found from None


def _said(error: Exception) -> str:
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    cause = error.orig if isinstance(error, DBAPIError) else error
    lines = str(cause).strip().splitlines()
    return re.sub(r"\s+", " ", lines[0]).rstrip(".:") if lines else type(cause).__name__


def _mend(error: Exception) -> str:
    cause = error.orig if isinstance(error, DBAPIError) else error
    if isinstance(cause, OSError):
        if cause.errno in (errno.ENOSPC, errno.EDQUOT):
            return f"free some space, or {_OTHER}"
        return f"make the file and its folder readable and writable, or {_OTHER}"
    if isinstance(cause, sqlite3.Error):
        name = getattr(cause, "sqlite_errorname", "")
        return next((mend for prefix, mend in _SQLITE if name.startswith(prefix)), _OTHER)
    # Who was not let in, or has been hung up on, is told no state.
    state = getattr(cause, "sqlstate", None) or "08"
    if isinstance(error, DBAPIError):
        return next((mend for prefix, mend in _POSTGRESQL if state.startswith(prefix)), _OTHER)
    if isinstance(error, PoolTimeoutError):
        return "all connections are in use: try again"
    return f"check the URL, or {_OTHER}"


def _may_pass(error: Exception) -> bool:
    cause = error.orig if isinstance(error, DBAPIError) else error
    if isinstance(cause, OSError):
        return cause.errno in (errno.ENOSPC, errno.EDQUOT)
    if isinstance(cause, sqlite3.Error):
        return getattr(cause, "sqlite_errorname", "").startswith(_PASSING_SQLITE)
    if isinstance(error, DBAPIError):
        return (getattr(cause, "sqlstate", None) or "08").startswith(_PASSING_POSTGRESQL)
    return isinstance(error, PoolTimeoutError)
