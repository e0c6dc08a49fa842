"""Content codings of bodies: gzip and deflate, decompressed no further than is allowed."""

from __future__ import annotations

import gzip
import zlib
from typing import Literal, TypeAlias

from hetune.service.core.formats.limits import check_limit
from hetune.variants.errors import MalformedError

Coding: TypeAlias = Literal["gzip", "deflate"]

CODINGS: tuple[Coding, ...] = ("gzip", "deflate")
_WINDOW: dict[Coding, int] = {"gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}
_PIECE = 1 << 20
_LEVEL = 1  # numbers hardly shrink: more effort brings little


class Decompressor:
    """Decompresses a body piece by piece, up to a limit.

    Args:
        coding: What it is compressed by.
        limit: Bytes that it may have when decompressed.
    """

    def __init__(self, coding: Coding, limit: int) -> None:
        self.content = bytearray()
        self._coding, self._limit = coding, limit
        self._stream = zlib.decompressobj(_WINDOW[coding])

    def feed(self, data: bytes) -> None:
        """Adds to the content what some more bytes hold.

        Raises:
            TooLargeError: The content is over the limit.
            MalformedError: The bytes are not of this coding.
        """
        while data:
            if self._stream.eof:
                raise MalformedError(f"there are bytes after the {self._coding} body: drop them")
            try:
                self._add(self._stream.decompress(data, _PIECE))
            except zlib.error:
                raise MalformedError(
                    f"the body is no {self._coding}: compress it, or drop Content-Encoding"
                ) from None
            data = self._stream.unconsumed_tail or self._stream.unused_data

    def finish(self) -> bytearray:
        """The whole content.

        Raises:
            TooLargeError: It is over the limit.
            MalformedError: The end of the body is missing.
        """
        self._add(self._stream.flush())
        if not self._stream.eof:
            raise MalformedError(f"the {self._coding} body ends early: send the whole")
        return self.content

    def _add(self, piece: bytes) -> None:
        total = len(self.content) + len(piece)
        check_limit("bytes of the decompressed body", total, self._limit)
        self.content += piece


def accepted(accept_encoding: str) -> Coding | None:
    """What to compress an answer by: the coding that is asked for, if it is the only one.

    HTTP libraries offer several by themselves; there it is not worth the time.
    """
    offered = [part.partition(";") for part in accept_encoding.lower().split(",")]
    names = [name.strip() for name, _, weight in offered if not _is_zero(weight)]
    for coding in CODINGS:
        if names == [coding]:
            return coding
    return None


def compress(content: bytes, coding: Coding) -> bytes:
    """A body, compressed."""
    if coding == "gzip":
        return gzip.compress(content, _LEVEL, mtime=0)
    return zlib.compress(content, _LEVEL)


def _is_zero(weight: str) -> bool:
    name, _, value = weight.partition("=")
    return name.strip() == "q" and not value.strip().strip("0.")
