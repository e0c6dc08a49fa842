"""Which parts of a run are finished: a line each, written when the disk has their rows."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, BinaryIO, Self

from hetune.variants.errors import PartitionError


@dataclass(frozen=True, slots=True)
class FinishedPart:
    """A part of a layer's rows that is written.

    Attributes:
        layer: Number of the layer.
        first: Its first node.
        last: The node after its last one.
        checksum: Of its rows.
        variant: What computed them.
    """

    layer: int
    first: int
    last: int
    checksum: str
    variant: str


_FIELDS = fields(FinishedPart)


class Journal:
    """The finished parts of a run, in a file that one process at a time may have.

    A line that was cut off by a crash, or is damaged, does not count, nor does anything after it.

    Args:
        path: The file.
        run: What is run, as JSON: the parts of another run do not count.

    Attributes:
        parts: What is finished, in order.

    Raises:
        PartitionError: Another process has it, or it cannot be written.
    """

    def __init__(self, path: Path, run: dict[str, Any]) -> None:
        self.path = path
        try:
            self._file = locked(path)
        except OSError as error:
            raise self._failure(error) from error
        self._file.seek(0)
        header = _line(run)
        first, *lines = self._file.read().split(b"\n")[:-1] or [b""]
        self.parts = _finished(lines) if first + b"\n" == header else []
        kept = [header, *map(_line_of, self.parts)]
        self._file.seek(0)
        self._file.truncate()
        self._append(b"".join(kept))

    def add(self, parts: Sequence[FinishedPart]) -> None:
        """Notes that some parts are finished.

        Raises:
            PartitionError: That cannot be written.
        """
        self._append(b"".join(map(_line_of, parts)))
        self.parts += parts

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Lets others have the file."""
        self._file.close()

    def _append(self, content: bytes) -> None:
        try:
            self._file.write(content)
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise self._failure(error) from error

    def _failure(self, error: OSError) -> PartitionError:
        return PartitionError(
            f"cannot write {self.path} ({error.strerror or error}): free some space and run it "
            "again; what is finished is kept"
        )


def locked(path: Path) -> BinaryIO:
    """A file to append to, in a folder that one process at a time may have; closing it frees it.

    Raises:
        PartitionError: Another process has it.
        OSError: It cannot be written.
    """
    file = path.open("a+b")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.close()
        if not isinstance(error, BlockingIOError):
            raise
        raise PartitionError(f"{path.parent} is in use by another process: wait") from error
    return file


def _line(record: dict[str, Any]) -> bytes:
    return json.dumps(record, sort_keys=True).encode() + b"\n"


def _line_of(part: FinishedPart) -> bytes:
    return _line({field.name: getattr(part, field.name) for field in _FIELDS})


def _finished(lines: list[bytes]) -> list[FinishedPart]:
    found = []
    for line in lines:
        try:
            part = FinishedPart(**json.loads(line))
        except (ValueError, TypeError):
            break
        if not all(type(number) is int for number in (part.layer, part.first, part.last)):
            break
        found.append(part)
    return found
