"""A few bytes that a worker writes and its parent looks at: what is at work, and is it moving."""

from __future__ import annotations

import mmap
import os
import struct
import tempfile
from pathlib import Path

SETTING_UP = -1
"""The unit while none of the variants is at work."""

_BEAT = struct.Struct("=qq")


class Heartbeat:
    """A count of steps and the number of the unit at work, in memory that two processes share.

    Writing it wakes nobody up, which a message would do in the middle of what is timed.
    """

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._memory = mmap.mmap(descriptor, _BEAT.size)

    @classmethod
    def create(cls) -> Heartbeat:
        """One of its own; a child that inherits the descriptor shares it."""
        descriptor, path = tempfile.mkstemp(prefix="hetune-")
        Path(path).unlink()
        os.ftruncate(descriptor, _BEAT.size)
        heartbeat = cls(descriptor)
        _BEAT.pack_into(heartbeat._memory, 0, 0, SETTING_UP)
        return heartbeat

    def beat(self, unit: int) -> None:
        """A step of that unit begins."""
        count, _ = self.read()
        _BEAT.pack_into(self._memory, 0, count + 1, unit)

    def read(self) -> tuple[int, int]:
        """Number of steps so far, and the unit of the last one."""
        count, unit = _BEAT.unpack_from(self._memory)
        return int(count), int(unit)

    def close(self) -> None:
        """Lets the memory go."""
        self._memory.close()
        os.close(self.descriptor)
