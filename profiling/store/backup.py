"""Copies of a store while others write to it, and back. For stores that are files."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from sqlalchemy import func, select

from hetune.profiling.store.connect import find
from hetune.profiling.store.faults import explained
from hetune.profiling.store.job_tables import jobs
from hetune.profiling.store.schema import measurements
from hetune.profiling.store.sqlite_files import SIDE_FILES, check_no_part
from hetune.profiling.store.store import Store
from hetune.variants.errors import StoreError
from hetune.variants.registry.atomic_files import PRIVATE, sync_folder

_BUSY_SECONDS = 30.0
"""How long a copy waits for others that write."""
_TAKEN_SECONDS = 0.5
"""How long a file that is to be replaced may be held by somebody who is about to let it go."""


def backup(url: str | Path | None, file: Path) -> int:
    """Writes a store as it is at one moment to a file, which appears when it is whole.

    Nobody has to stop writing meanwhile: what was committed before is in it, what is committed
    later is not, and nothing is in it in part.

    Args:
        url: As `Store.open` takes it.
        file: A new one, or one to replace.

    Returns:
        The number of measurements in it.

    Raises:
        StoreError: The store is on a server, or not there, or damaged, or cannot be read; or the
            file cannot be written, or is a store in use, or a part of one.
    """
    source = _file_of(url)
    if not source.is_file():
        raise StoreError(f"there is no store at {source}: name it with --store or HETUNE_STORE")
    if file.exists() and file.samefile(source):
        raise StoreError(f"{file} is the store itself: name another file for its copy")
    if file.exists() and not file.is_file():
        raise StoreError(f"{file} is no regular file: name another one for the copy")
    file = file.resolve()
    check_no_part(file)
    with _draft_of(file) as draft:
        _copy(source, draft, "read")
        found, _ = _contents(draft)
        with explained("write", str(file)):
            _publish(draft, file)
    return found


def restore(file: Path, url: str | Path | None, *, replace: bool = False) -> int:
    """Makes a store what a backup holds, whole or not at all; the backup stays as it is.

    Tables of an older hetune are brought up to date on the way. Stop what uses the store before: a
    worker's lease that the backup does not know has ended.

    Args:
        file: What `backup` wrote.
        url: As `Store.open` takes it.
        replace: Give up what the store holds, also where it is damaged or a newer hetune's.

    Returns:
        The number of measurements in it.

    Raises:
        StoreError: The file is no backup, or one of a newer hetune; the store is on a server, or
            holds something and is not to be replaced, or cannot be written.
    """
    target = _file_of(url)
    for each in (file, target):
        check_no_part(each)
    if not file.is_file():
        raise StoreError(f"there is no backup at {file}: name a file that `backup` wrote")
    if target.exists() and file.samefile(target):
        raise StoreError(f"{file} is the store itself: name the file of a backup")
    with explained("create", str(target)):
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _draft_of(target) as draft:
        _copy(file, draft, "read the backup of")
        found, _ = _contents(draft)
        if not replace and target.exists() and any(held := _contents(target)):
            raise StoreError(
                f"the store {target} holds {held[0]} measurements and {held[1]} jobs: back it up, "
                "and give --replace, or name another store"
            )
        if not target.exists():
            Store.open(target).close()
        # Not by renaming: SQLite would take what is left of the old file's log for the new one's.
        _copy(draft, target, "write to")
    return found


def _file_of(url: str | Path | None) -> Path:
    address = find(url)
    name = str(address.url.database)
    if address.url.get_backend_name() != "sqlite":
        raise StoreError(
            f"the store {address.place} is on a server, which has programs for this: "
            "pg_dump --format=custom --table='profiling_*', and pg_restore"
        )
    if name.startswith("file:"):
        raise StoreError(f"the store {address.place} has options of its own: name it by its path")
    return Path(name).expanduser().absolute()


@contextmanager
def _draft_of(path: Path) -> Iterator[Path]:
    """A file to be written in a folder of its own, which goes in the end."""
    with (
        explained("write", str(path)),
        tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as folder,
    ):
        yield Path(folder, "copy.db")


def _copy(source: Path, target: Path, doing: str) -> None:
    """Makes a database what another one is at one moment: a single transaction in both."""
    with (
        explained(doing, str(source if doing.startswith("read") else target)),
        closing(_connected(source)) as reading,
        closing(_connected(target)) as writing,
    ):
        reading.backup(writing)
        if writing.execute("PRAGMA quick_check").fetchall() != [("ok",)]:
            raise StoreError(
                f"{source} is damaged: save what is left (`sqlite3 {source} .recover`), or take "
                "another copy"
            )


def _connected(path: Path, seconds: float = _BUSY_SECONDS) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=seconds, isolation_level=None)


def _contents(path: Path) -> tuple[int, int]:
    """How many measurements and jobs a store has, whose tables are brought up to date.

    Raises:
        StoreError: It is none, or one of a newer hetune.
    """
    with Store.open(path) as store, store.reading() as connection:
        counts = (select(func.count()).select_from(table) for table in (measurements, jobs))
        first, second = (connection.execute(count).scalar_one() for count in counts)
        return first, second


def _publish(draft: Path, file: Path) -> None:
    """Puts a closed database in its place: one file, without the others that SQLite keeps.

    Raises:
        StoreError: What it would replace is in use.
    """
    with closing(_connected(draft)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
    draft.chmod(PRIVATE)
    handle = os.open(draft, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
    with _exclusive(file):
        # An old file's: SQLite would take them for the new one's.
        for ending in SIDE_FILES:
            Path(f"{file}{ending}").unlink(missing_ok=True)
        draft.replace(file)
    sync_folder(file.parent)


@contextmanager
def _exclusive(file: Path) -> Iterator[None]:
    """Nobody else uses a database meanwhile; nor does anybody what is none, or is not there.

    Raises:
        StoreError: Somebody does.
    """
    if not file.exists():
        yield
        return
    with closing(_connected(file, _TAKEN_SECONDS)) as connection:
        try:
            # Only who is connected alone can end the mode in which stores are kept.
            connection.execute("PRAGMA journal_mode = DELETE")
            connection.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorname.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
                raise StoreError(
                    f"{file} is a store in use: name another file, or stop what uses it"
                ) from None
        except sqlite3.DatabaseError:
            pass  # nothing that SQLite would use
        yield
