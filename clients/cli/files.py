"""Files of the commands: arrays that come in, results that go out whole or not at all."""

from __future__ import annotations

import lzma
import os
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from hetune.profiling.store.sqlite_files import check_no_part
from hetune.variants.errors import HetuneError, InputError
from hetune.variants.registry import atomic_files

_BROKEN = (
    OSError,
    EOFError,
    TypeError,
    ValueError,
    OverflowError,  # a shape beyond 64 bits
    RuntimeError,  # a zip of another version, method or with a password
    tokenize.TokenError,  # the header of an .npy
    lzma.LZMAError,
    zlib.error,
    zipfile.BadZipFile,
    SafetensorError,
)
_KINDS = {".npy": "an .npy", ".npz": "an .npz"}


class OutputError(HetuneError):
    """A result cannot be written."""


def read_arrays(path: Path) -> dict[str, Tensor]:
    """The arrays of a `.safetensors`, `.npz` or `.npy` file, never unpickled.

    That of an `.npy` file is called x.

    Raises:
        InputError: It cannot be read, or holds something else.
    """
    try:
        if path.suffix == ".npy":
            return {"x": torch.from_numpy(np.load(path, allow_pickle=False))}
        if path.suffix == ".npz":  # np.load leaves files open that are no zip
            with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
                return {name: torch.from_numpy(archive[name]) for name in archive.files}
        found: dict[str, Tensor] = load_file(path)
        return found
    except _BROKEN as error:
        raise InputError(
            f"{path} cannot be read as {_KINDS.get(path.suffix, 'a safetensors')} file of numbers "
            f"({error}): check the path, and write it anew"
        ) from error


def check_writable(path: Path) -> None:
    """Before the work rather than after it.

    Raises:
        InputError: There can be no such file.
        StoreError: It is a part of a database.
    """
    try:
        check_no_part(path)
        folder = path.resolve().parent
        is_open = atomic_files.descriptor_of(path) is not None
        is_special = path.exists() and (is_open or not path.is_file())
        can_be_made = folder.is_dir() and os.access(folder, os.W_OK)
        is_writable = not path.is_dir() and (is_special or can_be_made)
    except (OSError, RuntimeError):  # a loop of links, a folder that is closed, too long a name
        is_writable = False
    if not is_writable:
        raise InputError(
            f"{path} is no file that can be written: name a file in a folder that exists and may "
            "be written to"
        )


def write_atomically(path: Path, content: bytes) -> None:
    """Writes a file whole or not at all.

    Raises:
        OutputError: It cannot be written.
    """
    with replacing(path) as file:
        file.write(content)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file that takes the place of another if the block ends well.

    Raises:
        OutputError: It cannot be written.
    """
    try:
        with atomic_files.replacing(path, 0o666 & ~_umask()) as file:
            yield file
    except OSError as error:
        if isinstance(error, HetuneError):
            raise
        raise OutputError(
            f"cannot write {path} ({error.strerror or error}): free some space, or name another "
            "file"
        ) from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
