"""Files that may be compressed, recognized by their first bytes whatever their names."""

import bz2
import gzip
import io
import lzma
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pyarrow as pa

from hetune.variants.graph.loaders.file_errors import check_memory

BOM = b"\xef\xbb\xbf"
"""What some programs on Windows put before text."""
_MAGIC = {b"\x1f\x8b": "gzip", b"BZh": "bz2", b"\xfd7zXZ\0": "xz", b"\x28\xb5\x2f\xfd": "zstd"}
_CHUNK = 1 << 20
_FACTOR = 4
"""Parsed text takes a few times its size."""


def compression(path: Path) -> str | None:
    """How the file is compressed; None for any other content."""
    with path.open("rb") as file:
        start = file.read(6)
    return next((name for magic, name in _MAGIC.items() if start.startswith(magic)), None)


def chunks(path: Path) -> Iterator[bytes]:
    """The content, decompressed, in pieces of about 1 MiB."""
    with _opened(path) as file:
        while chunk := file.read(_CHUNK):
            yield chunk


def contents(path: Path) -> bytes:
    """The whole text, decompressed, without a byte order mark.

    Raises:
        GraphFileError: It is larger than that.
    """
    check_memory(path, _FACTOR * path.stat().st_size, "its text")
    parts = []
    size = checked = 0
    for chunk in chunks(path):
        parts.append(chunk)
        size += len(chunk)
        if size >= checked + 64 * _CHUNK:
            check_memory(path, _FACTOR * size, f"more than {size} bytes of text")
            checked = size
    return b"".join(parts).removeprefix(BOM)


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    match compression(path):
        case "gzip":
            with gzip.open(path) as file:
                yield io.BufferedReader(file)
        case "bz2":
            with bz2.open(path) as file:
                yield file
        case "xz":
            with lzma.open(path) as file:
                yield file
        case "zstd":
            with pa.OSFile(str(path)) as raw, pa.CompressedInputStream(raw, "zstd") as file:
                yield file
        case _:
            with path.open("rb") as file:
                yield file
