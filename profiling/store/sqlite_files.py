"""The files that belong to a database of SQLite."""

from __future__ import annotations

from pathlib import Path

from hetune.variants.errors import StoreError

SIDE_FILES = ("-wal", "-shm", "-journal")
"""What SQLite appends to a database's name for the other files that belong to it."""


def check_no_part(path: Path) -> None:
    """Checks that a file is none of those that SQLite keeps beside a database.

    Raises:
        StoreError: It is one.
    """
    path = path.resolve()
    for ending in SIDE_FILES:
        base = path.with_name(path.name.removesuffix(ending) or path.name)
        if base != path and base.is_file():
            raise StoreError(
                f"{path} is a part of the database {base}, which would be damaged: name another "
                "file"
            )
