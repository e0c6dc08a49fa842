"""Files that are written atomically: whole or not at all, and on the disk when they are."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

PRIVATE = 0o600
ROOM = 1 << 16
"""Bytes that have to fit where something is to be written: an empty file fits a full disk, too."""
_STREAMS = {"/dev/stdin": 0, "/dev/stdout": 1, "/dev/stderr": 2}
_DESCRIPTOR = re.compile(r"/(?:dev|proc/self)/fd/(\d{1,9})")


@contextmanager
def replacing(path: Path, mode: int = PRIVATE) -> Iterator[BinaryIO]:
    """A file that takes the place of `path` if the block ends well, and leaves nothing if not.

    Nothing takes the place of a link, but of the file that it leads to; nor of a device, a pipe or
    a file that is open by that name (/dev/stdout): these are written to.

    Args:
        path: In a folder that exists.
        mode: Who may read and write it.

    Raises:
        OSError: It cannot be written; `path` is as it was.
    """
    if (descriptor := descriptor_of(path)) is not None:
        with os.fdopen(os.dup(descriptor), "wb") as file:
            yield file
        return
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            yield file
        return
    path = path.resolve()
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    draft = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        draft.chmod(mode)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    sync_folder(path.parent)


def descriptor_of(path: Path) -> int | None:
    """The number of the open file that a path such as /dev/stdout or /dev/fd/3 stands for."""
    found = _DESCRIPTOR.fullmatch(str(path))
    return int(found[1]) if found else _STREAMS.get(str(path))


def write_atomically(path: Path, content: bytes, mode: int = PRIVATE) -> None:
    """Writes a file as `replacing` does.

    Raises:
        OSError: As there.
    """
    with replacing(path, mode) as file:
        file.write(content)


def sync_folder(folder: Path) -> None:
    """Waits until the names in a folder are on the disk.

    Raises:
        OSError: They cannot be written.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
