"""Memory for bodies that come piece by piece, of requests and of answers."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from hetune.service.core.formats.container import Content
from hetune.variants.graph.float_memory import ELEMENT
from hetune.variants.runtime.workspace import ReusedMemory

_LARGE = 1 << 23
_STEP = 1 << 20
"""Memory that is used again is a multiple of it: heads of containers differ a little."""
_AT_ONCE = 1 << 30
"""The most that is taken because it is announced. Memory that is never written to costs nothing."""


class BodyMemory:
    """Gives memory to bodies. At most one large block is kept: of a body that nobody reads now.

    New pages may take longer than all else that is done with a body: see `ReusedMemory`.

    Args:
        most: Bytes of a block that is kept.
    """

    def __init__(self, most: float) -> None:
        self._most, self._reused = most, ReusedMemory()

    def take(self, size: int) -> np.ndarray:
        """Memory that is not initialised, uint8 [size or a little more]."""
        if not _LARGE <= size <= self._most:
            return np.empty(size, dtype=np.uint8)
        steps = -(-size // _STEP)
        return self._reused.take(steps * _STEP // ELEMENT).numpy().view(np.uint8)


class ReceivedBody:
    """A body, one piece after the other.

    Args:
        memory: Gives it memory.
        announced: Bytes that shall come, as of `announced_bytes`.
    """

    def __init__(self, memory: BodyMemory, announced: int) -> None:
        self._memory, self._announced = memory, min(announced, _AT_ONCE)
        self._bytes, self._size = np.empty(0, dtype=np.uint8), 0

    def add(self, piece: Content) -> None:
        """What comes next."""
        first, self._size = self._size, self._size + len(piece)
        if not self._bytes.size:
            self._bytes = self._memory.take(max(self._announced, self._size))
        elif self._size > self._bytes.size:
            self._bytes = np.concatenate((self._bytes, np.empty(self._size, dtype=np.uint8)))
        self._bytes.data[first : self._size] = piece

    @property
    def content(self) -> memoryview:
        """All that has come. It may be written to, so that tensors can lie in it."""
        return self._bytes[: self._size].data


def announced_bytes(headers: Mapping[str, str]) -> int:
    """How long headers say that a body is; 0 if they do not."""
    length = headers.get("content-length", "")
    return int(length) if length.isdecimal() else 0
