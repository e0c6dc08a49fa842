"""Arrays in `.npz` files, read from the first row to the last one."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np


def member_header(path: Path, name: str) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Shape, whether columns follow each other rather than rows, and dtype of an array."""
    with zipfile.ZipFile(path) as archive, archive.open(f"{name}.npy") as member:
        return read_header(member)


def member_chunks(path: Path, name: str, step: int, row: int | None = None) -> Iterator[np.ndarray]:
    """Rows of an array, so many at once; or elements of one row of a matrix.

    Raises:
        ValueError: The array's rows do not follow each other, or it is no plain one.
    """
    with zipfile.ZipFile(path) as archive, archive.open(f"{name}.npy") as member:
        shape, is_by_columns, dtype = read_header(member)
        is_by_columns &= len(shape) > 1
        if dtype.hasobject or (is_by_columns and row is None):
            raise ValueError(f"{name} is {dtype} by columns: save plain numbers by rows")
        at: int | slice = slice(None)
        if row is not None and is_by_columns:
            shape, at = shape[::-1], row
        elif row is not None:
            shape = shape[1:]
            member.seek(member.tell() + row * _count(shape) * dtype.itemsize)
        inner = shape[1:]
        for first in range(0, shape[0], step):
            wanted = min(step, shape[0] - first) * _count(inner)
            found = np.frombuffer(member.read(wanted * dtype.itemsize), dtype, wanted)
            yield found.reshape(-1, *inner)[..., at]


def read_header(member: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype]:
    """As `member_header`, of an array's file, which is read up to its numbers."""
    formats = np.lib.format
    is_first = formats.read_magic(member) == (1, 0)
    read = formats.read_array_header_1_0 if is_first else formats.read_array_header_2_0
    shape, is_by_columns, dtype = read(member)
    return shape, is_by_columns, dtype


def _count(shape: tuple[int, ...]) -> int:
    return int(np.prod(shape, dtype=np.int64))
