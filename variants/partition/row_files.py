"""Rows of nodes in `.npy` files, read and written in parts."""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self, TypeAlias

import numpy as np
import torch
from torch import Tensor

from hetune.variants.errors import InputError, PartitionError

RowsLike: TypeAlias = str | os.PathLike[str] | np.ndarray | Tensor
"""Rows of all nodes, [N, width]: an `.npy` file, an array that may be mapped to one, a tensor."""


def open_rows(given: RowsLike, num_nodes: int | None) -> np.ndarray:
    """Rows of floats, [N, width], of any N if None; those of a file stay in the file.

    Raises:
        InputError: They cannot be read, or are no float rows of so many nodes.
    """
    if isinstance(given, Tensor):
        rows = _array(given)
    elif isinstance(given, np.ndarray):
        rows = given
    else:
        try:
            rows = np.load(given, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise InputError(f"{given} cannot be read as an .npy file of rows ({error})") from error
    if not isinstance(rows, np.ndarray) or rows.ndim != 2 or rows.dtype.kind != "f":
        raise InputError("features are no float array [N, width]: give an .npy file of one array")
    check_rows(len(rows), num_nodes)
    return rows


def check_rows(count: int, num_nodes: int | None) -> None:
    """Raises `InputError` where there are more rows or fewer than nodes, if that is known."""
    if num_nodes not in (None, count):
        raise InputError(f"there are {count} rows of features, and {num_nodes} nodes")


def identity_of(given: RowsLike) -> list[object]:
    """What tells content apart from that of another run: names, sizes and times, or bytes."""
    if isinstance(given, str | os.PathLike):
        path = Path(given).resolve()
        if path.is_dir():
            return [str(path), *map(identity_of, sorted(path.rglob("*.gz")))]
        info = path.stat()
        return [str(path), info.st_size, info.st_mtime_ns]
    rows = _array(given) if isinstance(given, Tensor) else given
    return [list(rows.shape), digest_of(rows)]


def file_of(given: RowsLike) -> Path | None:
    """The file that rows are in."""
    if isinstance(given, np.memmap):
        given = given.filename or ""
    return Path(given).resolve() if isinstance(given, str | os.PathLike) and given else None


def _array(rows: Tensor) -> np.ndarray:
    """NumPy has no bfloat16."""
    rows = rows.detach().cpu()
    found: np.ndarray = (rows.float() if rows.dtype is torch.bfloat16 else rows).numpy()
    return found


def digest_of(rows: np.ndarray) -> str:
    """Of the bytes of rows, in hex."""
    digest = hashlib.blake2b(digest_size=16)
    for content in _contents(rows):
        digest.update(content)
    return digest.hexdigest()


def checksum_of(rows: np.ndarray) -> str:
    """Tells damaged rows from sound ones, in hex; other rows may have it, unlike a digest."""
    checksum = 0
    for content in _contents(rows):
        checksum = zlib.crc32(content, checksum)
    return f"{checksum:08x}"


def _contents(rows: np.ndarray) -> Iterator[memoryview]:
    """The bytes of rows, some of these at a time."""
    for first in range(0, len(rows), 1 << 16):
        yield np.ascontiguousarray(rows[first : first + (1 << 16)]).data


class RowWriter:
    """An `.npy` file of float32 rows that is filled in parts.

    All of its space is taken when it is made, so that a full disk is noticed then.

    Args:
        path: The file; one of the same shape is continued.
        rows: N.
        width: Of a row.

    Raises:
        PartitionError: It cannot be written.
    """

    def __init__(self, path: Path, rows: int, width: int) -> None:
        self.path, self._shape = path, (rows, width)
        with writing(path):
            if not self._is_there():
                allocated(path, self._shape, "<f4")
            self._file = path.open("r+b")
            self._first = path.stat().st_size - 4 * rows * width

    def _is_there(self) -> bool:
        try:
            return self.read().shape == self._shape
        except (OSError, ValueError, EOFError):
            return False

    def read(self) -> np.ndarray:
        """The rows, mapped to the file."""
        found: np.ndarray = np.load(self.path, mmap_mode="r", allow_pickle=False)
        return found

    def write(self, first: int, rows: np.ndarray) -> str:
        """Writes rows from the row `first` on, and gives their checksum.

        Raises:
            PartitionError: They cannot be written.
        """
        content = np.ascontiguousarray(rows)
        with writing(self.path):
            self._file.seek(self._first + 4 * first * self._shape[1])
            self._file.write(content.data)
        return checksum_of(content)

    def sync(self) -> None:
        """Waits until the disk has what was written.

        Raises:
            PartitionError: It has no room.
        """
        with writing(self.path):
            self._file.flush()
            os.fsync(self._file.fileno())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def allocated(path: Path, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """A new `.npy` file, mapped, all of whose space is taken.

    Raises:
        OSError: There is not so much.
    """
    path.unlink(missing_ok=True)
    try:
        found = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=shape)
        with path.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
    except OSError:
        path.unlink(missing_ok=True)  # a part of it would fill the disk
        raise
    return found


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Says what to do where a file cannot be written.

    Raises:
        PartitionError: It cannot.
    """
    try:
        yield
    except OSError as error:
        raise PartitionError(
            f"cannot write {path} ({error.strerror or error}): free some space and run it again; "
            "what is finished is kept"
        ) from error


def gathered(rows: np.ndarray, nodes: np.ndarray) -> Tensor:
    """Some rows, float32 [nodes, width]; `nodes` ascend, as does what is read of a file."""
    plain = np.asarray(rows)
    # `take` is faster, but copies all rows first where they do not lie one after the other.
    found = (
        plain.take(nodes, 0) if plain.flags.c_contiguous and plain.flags.aligned else plain[nodes]
    )
    return torch.from_numpy(found.astype(np.float32, copy=False))
