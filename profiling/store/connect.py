"""From a URL to an engine: SQLite files that are private, PostgreSQL servers that answer."""

from __future__ import annotations

import math
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import platformdirs
from sqlalchemy import URL, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError

from hetune.profiling.store.engines import Shared, acquire, opened, release
from hetune.profiling.store.faults import explained
from hetune.profiling.store.server import server_engine
from hetune.variants.errors import StoreError
from hetune.variants.extras import installing

SECONDS = 10.0
"""How long a database may take to answer, where HETUNE_STORE_SECONDS does not say."""
MOST_SECONDS = 3600
SECONDS_VARIABLE = "HETUNE_STORE_SECONDS"
_SECRET_OPTIONS = ("password", "sslpassword")
_KINDS = (
    "it is the path of an SQLite file, sqlite:///PATH, or "
    "postgresql+psycopg://USER:PASSWORD@HOST/DATABASE"
)


@dataclass(frozen=True, slots=True)
class Address:
    """Where a store is.

    Attributes:
        url: With its password: SQLAlchemy hides it in `repr`.
        place: What messages call it: no password, no options.
        secrets: What messages must not hold.
        seconds: How long a statement may take, or wait for another process that writes.
    """

    url: URL
    place: str
    secrets: tuple[str, ...]
    seconds: float = SECONDS


def find(url: str | Path | None) -> Address:
    """Read a URL or a path; None is HETUNE_STORE, or else a file among the user's data.

    Raises:
        StoreError: It is no URL of a database that hetune knows, or HETUNE_STORE_SECONDS is no
            time.
    """
    return replace(_find(url), seconds=_seconds())


def _seconds() -> float:
    text = os.environ.get(SECONDS_VARIABLE, "").strip()
    try:
        seconds = float(text or SECONDS)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds <= MOST_SECONDS:
        raise StoreError(
            f"{SECONDS_VARIABLE}={text}: take seconds, up to {MOST_SECONDS}, such as {SECONDS:g}"
        )
    return seconds


def _find(url: str | Path | None) -> Address:
    if url is None:
        url = os.environ.get("HETUNE_STORE", "").strip() or Path(
            platformdirs.user_data_dir("hetune", appauthor=False), "profiling.db"
        )
    if isinstance(url, Path) or "://" not in url:
        path = str(Path(url).expanduser().absolute())
        return Address(URL.create("sqlite", database=path), path, ())
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        # Not quoted: what cannot be read may hold a password anywhere.
        raise StoreError(f"the store's URL cannot be read: {_KINDS}") from None
    kind = parsed.get_backend_name()
    if kind == "sqlite":
        if parsed.host or parsed.username or parsed.port:
            raise StoreError(f"the store's URL names a host, which a file has none of: {_KINDS}")
        if parsed.database in (None, "", ":memory:"):
            raise StoreError("a store in memory would keep nothing: write sqlite:///PATH")
        return Address(parsed.set(drivername="sqlite"), str(parsed.database), ())
    if kind not in ("postgresql", "postgres"):
        raise StoreError(f"the store's URL names a database of kind {kind!r}: {_KINDS}")
    if "@" in (parsed.host or ""):
        raise StoreError("the store's URL holds more than one @: write the password's as %40")
    hidden = [value for key in _SECRET_OPTIONS for value in _values(parsed, key)]
    secrets = tuple(filter(None, [parsed.password, *hidden]))
    parsed = parsed.set(drivername="postgresql+psycopg")
    shown = URL.create(
        parsed.drivername, parsed.username, None, parsed.host, parsed.port, parsed.database
    )
    return Address(parsed, shown.render_as_string(hide_password=False), secrets)


def connect(address: Address) -> Shared:
    """This process's engine for a store, to be given back; nothing but a file is created.

    Raises:
        StoreError: The file cannot be created or used, or the driver is not installed.
    """
    with explained("create", address.place, address.secrets):
        return acquire(address.url, address.place, lambda: _engine(address))


def _engine(address: Address) -> Engine:
    if address.url.get_backend_name() == "sqlite":
        return _file_engine(address)
    try:
        return server_engine(address.url, address.seconds)
    except ImportError:
        raise StoreError(
            f"the store {address.place} needs a driver: {installing('postgresql')}"
        ) from None


def _file_engine(address: Address) -> Engine:
    seconds = address.seconds
    engine = create_engine(
        address.url,
        connect_args={"timeout": seconds},
        hide_parameters=True,
        pool_timeout=seconds,
    )
    event.listen(engine, "connect", lambda connection, _: _set_up_sqlite(connection, seconds))
    return engine


@contextmanager
def held(url: str | Path | None) -> Iterator[None]:
    """Checks that there can be a store, and keeps its file in view; a server may be away for now.

    Where the file is deleted or replaced meanwhile, no store in the process opens another one.

    Args:
        url: As `find` takes it.

    Raises:
        StoreError: There never can.
    """
    address = find(url)
    shared = connect(address)
    try:
        if shared.engine.dialect.name == "sqlite":
            with explained("open", address.place, address.secrets), shared.engine.connect():
                pass
        yield
    finally:
        release(shared)


def check_place(url: str | Path | None) -> None:
    """Checks, without asking the database, that a store which is open here is where it was.

    Args:
        url: As `find` takes it.

    Raises:
        StoreError: Its file, or one that SQLite keeps beside it, was deleted or replaced.
    """
    if (shared := opened(find(url).url)) is not None:
        shared.check()


def _values(url: URL, key: str) -> tuple[str, ...]:
    value = url.query.get(key, ())
    return (value,) if isinstance(value, str) else value


def _set_up_sqlite(connection: sqlite3.Connection, seconds: float) -> None:
    connection.execute("PRAGMA foreign_keys = ON")
    deadline = time.monotonic() + seconds
    while connection.execute("PRAGMA journal_mode").fetchone() == ("delete",):
        try:
            # Readers do not wait for a writer then. Folders that cannot have it do without.
            connection.execute("PRAGMA journal_mode = WAL")
            # The first to read makes the log.
            connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
            return
        except sqlite3.OperationalError as error:
            # Who changes the mode does not wait by itself.
            busy = error.sqlite_errorname.startswith(("SQLITE_BUSY", "SQLITE_LOCKED"))
            if not busy:
                return
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
